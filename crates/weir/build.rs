//! The pages are part of the program where they were built; where they were not, their folder is empty.

fn main() {
    let pages = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ui/dist");
    println!("cargo:rerun-if-changed={}", pages.display());
    if let Err(error) = std::fs::create_dir_all(&pages) {
        println!("cargo:warning={}: {error}", pages.display());
    }
}
