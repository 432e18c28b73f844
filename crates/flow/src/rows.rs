//! A value for each row of a flow table, allocated in pages when rows are first used. Values are never moved, and
//! neighbouring rows have neighbouring values.

/// Rows in a page.
const PAGE: usize = 512;

/// Values by the number of a row.
#[derive(Debug)]
pub struct Rows<T> {
    pages: Vec<Option<Box<[T]>>>,
    made: usize,
}

impl<T> Default for Rows<T> {
    fn default() -> Self {
        Self { pages: Vec::new(), made: 0 }
    }
}

impl<T: Default> Rows<T> {
    /// The value of a row; `None` if no row of its page was ever in use.
    #[inline]
    pub fn get(&self, row: u32) -> Option<&T> {
        self.pages.get(row as usize / PAGE)?.as_ref()?.get(row as usize % PAGE)
    }

    /// The mutable value of a row; `None` if no row of its page was ever in use.
    #[inline]
    pub fn get_mut(&mut self, row: u32) -> Option<&mut T> {
        self.pages.get_mut(row as usize / PAGE)?.as_mut()?.get_mut(row as usize % PAGE)
    }

    /// The mutable value of a row, created if missing.
    #[inline]
    pub fn make(&mut self, row: u32) -> Option<&mut T> {
        let page = row as usize / PAGE;
        if !matches!(self.pages.get(page), Some(Some(_))) {
            self.make_page(page);
        }
        self.get_mut(row)
    }

    #[cold]
    fn make_page(&mut self, page: usize) {
        if self.pages.len() <= page {
            self.pages.resize_with(page + 1, || None);
        }
        if let Some(place) = self.pages.get_mut(page) {
            *place = Some((0..PAGE).map(|_| T::default()).collect());
            self.made += 1;
        }
    }

    /// Memory in bytes.
    pub fn memory(&self) -> usize {
        self.made * PAGE * size_of::<T>() + self.pages.capacity() * size_of::<Option<Box<[T]>>>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_allocated_on_first_use() {
        let mut rows = Rows::<u64>::default();
        assert_eq!(rows.get(3), None);
        for row in [3, 4, 100_000] {
            *rows.make(row).unwrap() += u64::from(row);
        }
        assert_eq!(
            [3, 4, 5, 100_000].map(|row| rows.get(row).copied()),
            [Some(3), Some(4), Some(0), Some(100_000)]
        );
        assert_eq!(rows.get(50_000), None);
        let pages = 2 * PAGE * size_of::<u64>();
        assert!((pages..pages + 8192).contains(&rows.memory()), "{}", rows.memory());
    }
}
