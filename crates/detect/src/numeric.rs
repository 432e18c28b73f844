//! Numbers in a buffer: `byte_test`, `byte_jump`, `byte_extract`, `byte_math` and `isdataat`.

use crate::content::Amount;
use crate::fault::Fault;
use crate::value::{Value, one_of};

/// How the bytes of a number are read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Form {
    /// Binary, most significant byte first.
    Big,
    /// Binary, least significant byte first.
    Little,
    /// In the byte order that the DCE/RPC header of the message states.
    Dce,
    /// Text in a base of 8, 10 or 16.
    Text(u32),
}

/// Where a number is and how it is read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Read {
    /// The number of its bytes: 1 to 8 in binary, 0 to 23 as text. 0 are all to the end of the buffer.
    pub bytes: Amount,
    /// Its first byte: from the beginning of the buffer, or from the end of the last match. May be negative then.
    pub offset: Amount,
    /// Whether the offset counts from the end of the last match.
    pub is_relative: bool,
    /// How its bytes are read.
    pub form: Form,
    /// A mask of its bits; the result is shifted right by the mask's trailing zeros.
    pub mask: Option<u64>,
}

/// How `byte_test` compares.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Operator {
    /// Lower.
    Below,
    /// Lower or equal.
    AtMost,
    /// Equal.
    Is,
    /// Higher or equal.
    AtLeast,
    /// Higher.
    Above,
    /// Any bit of both is set.
    And,
    /// Any bit of one alone is set.
    Xor,
}

/// `byte_test`: a number in the buffer compared with one in the rule.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ByteTest {
    /// The number in the buffer.
    pub read: Read,
    /// How it is compared.
    pub operator: Operator,
    /// Whether the comparison must fail.
    pub is_negated: bool,
    /// With what.
    pub with: Amount,
}

/// Where a jump starts from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum JumpFrom {
    /// After the number.
    Number,
    /// The beginning of the buffer.
    Beginning,
    /// The end of the buffer.
    End,
}

/// `byte_jump`: the next relative test counts from where this number says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ByteJump {
    /// The number.
    pub read: Read,
    /// What it is multiplied by.
    pub multiplier: u64,
    /// Whether the number is rounded up to a multiple of 4.
    pub is_aligned: bool,
    /// Where the jump starts from.
    pub from: JumpFrom,
    /// What is added at the end.
    pub post_offset: Amount,
}

/// `byte_extract`: a number in the buffer becomes a variable.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ByteExtract {
    /// The number.
    pub read: Read,
    /// What it is multiplied by.
    pub multiplier: u64,
    /// It is rounded up to a multiple of this, if any: 2 or 4.
    pub align: Option<u64>,
    /// The position of the variable in [`Rule::variables`](crate::Rule::variables).
    pub variable: usize,
}

/// What `byte_math` does with the number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Arithmetic {
    /// Adds.
    Add,
    /// Subtracts.
    Subtract,
    /// Multiplies.
    Multiply,
    /// Divides. By zero nothing is computed, and the test fails.
    Divide,
    /// Shifts left.
    Left,
    /// Shifts right.
    Right,
}

/// `byte_math`: a number in the buffer, computed with another, becomes a variable.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ByteMath {
    /// The number.
    pub read: Read,
    /// What is computed.
    pub arithmetic: Arithmetic,
    /// With what.
    pub with: Amount,
    /// The position of the variable in [`Rule::variables`](crate::Rule::variables).
    pub variable: usize,
}

/// `isdataat`: whether the buffer has a byte at a place.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct IsDataAt {
    /// Whether there must be none.
    pub is_negated: bool,
    /// The place.
    pub at: Amount,
    /// Whether the place counts from the end of the last match.
    pub is_relative: bool,
}

/// The variables of a rule, in the order in which the rule makes them.
pub(crate) type Names = Vec<Box<str>>;

/// A number, or the name of a variable that an earlier keyword makes.
pub(crate) fn amount(
    value: Value<'_>,
    what: &str,
    least: i64,
    greatest: i64,
    names: &Names,
) -> Result<Amount, Fault> {
    let is_name = value.bytes.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_');
    if !is_name {
        return value.number(what, least, greatest).map(Amount::Is);
    }
    let name = value.text()?;
    let position = names.iter().position(|known| **known == *name);
    position.map(Amount::Variable).ok_or_else(|| {
        value.wrong(format!(
            "`{name}` is neither {what} nor a variable of a byte_extract or byte_math before it"
        ))
    })
}

/// Adds a variable.
fn variable(value: Value<'_>, names: &mut Names) -> Result<usize, Fault> {
    /// Suricata has a limit of its own; ours keeps the state of a match small.
    const MOST: usize = 32;
    let name = value.text()?;
    let is_name = name.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_')
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.' | '-'));
    if !is_name {
        return Err(value.wrong(format!(
            "`{}` is not a name of a variable: letters, digits, `_`, `.` and `-`",
            value.shown()
        )));
    }
    if let Some(position) = names.iter().position(|known| **known == *name) {
        return Err(value.wrong(format!("`{name}` is the variable of an earlier keyword ({})", position + 1)));
    }
    if names.len() == MOST {
        return Err(value.wrong(format!("more than {MOST} variables")));
    }
    names.push(name.into());
    Ok(names.len() - 1)
}

/// The options that all keywords for numbers share.
struct Shared {
    is_relative: bool,
    form: Option<Form>,
    is_text: bool,
    base: Option<u32>,
    mask: Option<u64>,
}

impl Shared {
    const NONE: Self = Self { is_relative: false, form: None, is_text: false, base: None, mask: None };

    /// Takes a word, if it is one of the shared ones.
    fn takes(&mut self, word: Value<'_>) -> Result<bool, Fault> {
        let (name, argument) = word.name_and_argument();
        match name.bytes {
            b"relative" => self.is_relative = true,
            b"big" => self.set_form(name, Form::Big)?,
            b"little" => self.set_form(name, Form::Little)?,
            b"dce" => self.set_form(name, Form::Dce)?,
            b"string" => self.is_text = true,
            b"hex" => self.base = Some(16),
            b"dec" => self.base = Some(10),
            b"oct" => self.base = Some(8),
            b"bitmask" => self.mask = Some(mask(argument)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn set_form(&mut self, word: Value<'_>, form: Form) -> Result<(), Fault> {
        match self.form.replace(form) {
            Some(before) if before != form => {
                Err(word.wrong("a number has one byte order; a second one is given"))
            }
            _ => Ok(()),
        }
    }

    /// How and where the number is read.
    fn read(self, value: Value<'_>, bytes: Amount, offset: Amount) -> Result<Read, Fault> {
        let form = match (self.is_text, self.form) {
            (true, Some(Form::Dce)) => {
                return Err(value.wrong("`dce` numbers are binary; `string` contradicts it"));
            }
            (true, _) => Form::Text(self.base.unwrap_or(10)),
            (false, form) if self.base.is_none() => form.unwrap_or(Form::Big),
            (false, _) => return Err(value.wrong("`hex`, `dec` and `oct` need `string`")),
        };
        let (of, least, most) = if self.is_text { ("as text", 0, 23) } else { ("in binary", 1, 8) };
        if let Amount::Is(bytes) = bytes
            && !(least..=most).contains(&bytes)
        {
            return Err(value.wrong(format!("a number {of} has {least} to {most} bytes, not {bytes}")));
        }
        Ok(Read { bytes, offset, is_relative: self.is_relative, form, mask: self.mask })
    }
}

fn mask(value: Value<'_>) -> Result<u64, Fault> {
    match value.number("a mask", 1, i64::from(u32::MAX)) {
        Ok(mask) => Ok(mask as u64),
        // Masks are hexadecimal with or without their sign.
        Err(fault) => match u64::from_str_radix(value.text()?, 16) {
            Ok(mask) if mask > 0 && mask <= u64::from(u32::MAX) => Ok(mask),
            _ => Err(fault),
        },
    }
}

fn unknown(word: Value<'_>, keyword: &str) -> Fault {
    word.wrong(format!("`{}` is not an option of {keyword}", word.shown()))
}

fn missing(value: Value<'_>, what: &str) -> Fault {
    value.wrong(format!("{what} is missing"))
}

/// Limits of an offset in a buffer.
const OFFSET: i64 = 65_535;

fn offset(value: Value<'_>, names: &Names) -> Result<Amount, Fault> {
    amount(value, "an offset", -OFFSET, OFFSET, names)
}

impl ByteTest {
    pub(crate) fn parse(value: Value<'_>, names: &Names) -> Result<Self, Fault> {
        let mut words = value.parts(b',');
        let bytes = words.next().ok_or_else(|| missing(value, "the number of bytes"))?;
        let bytes = amount(bytes, "a number of bytes", 0, 23, names)?;
        let operator = words.next().ok_or_else(|| missing(value, "the operator"))?;
        let (is_negated, operator) = operator.negated();
        const OPERATORS: [(&str, Operator); 8] = [
            ("<", Operator::Below),
            ("<=", Operator::AtMost),
            ("=", Operator::Is),
            ("==", Operator::Is),
            (">=", Operator::AtLeast),
            (">", Operator::Above),
            ("&", Operator::And),
            ("^", Operator::Xor),
        ];
        // A negation alone, and `!=`, are tests of equality.
        let operator = match operator.bytes {
            b"" if is_negated => Operator::Is,
            _ => one_of(operator, "an operator", &OPERATORS)?,
        };
        let with = words.next().ok_or_else(|| missing(value, "the number to compare with"))?;
        let with = amount(with, "a number", -i64::from(u32::MAX), i64::MAX, names)?;
        let at = words.next().ok_or_else(|| missing(value, "the offset"))?;
        let at = offset(at, names)?;
        let mut shared = Shared::NONE;
        for word in words {
            if !shared.takes(word)? {
                return Err(unknown(word, "byte_test"));
            }
        }
        Ok(Self { read: shared.read(value, bytes, at)?, operator, is_negated, with })
    }
}

impl ByteJump {
    pub(crate) fn parse(value: Value<'_>, names: &Names) -> Result<Self, Fault> {
        let mut words = value.parts(b',');
        let first = words.next().ok_or_else(|| missing(value, "the number of bytes"))?;
        let bytes = amount(first, "a number of bytes", 0, 23, names)?;
        let at = words.next().ok_or_else(|| missing(value, "the offset"))?;
        let at = offset(at, names)?;
        let mut shared = Shared::NONE;
        let (mut multiplier, mut is_aligned, mut from, mut post_offset) =
            (1, false, JumpFrom::Number, Amount::Is(0));
        for word in words {
            if shared.takes(word)? {
                continue;
            }
            let (name, argument) = word.name_and_argument();
            match name.bytes {
                b"multiplier" => multiplier = argument.number("a multiplier", 1, 65_535)? as u64,
                b"align" => is_aligned = true,
                b"from_beginning" => from = JumpFrom::Beginning,
                b"from_end" => from = JumpFrom::End,
                b"post_offset" => post_offset = offset(argument, names)?,
                _ => return Err(unknown(word, "byte_jump")),
            }
        }
        // Zero bytes are no number: the jump is the post_offset.
        let read = match bytes {
            Amount::Is(0) => {
                Read { bytes, offset: at, is_relative: shared.is_relative, form: Form::Big, mask: None }
            }
            bytes => shared.read(value, bytes, at)?,
        };
        Ok(Self { read, multiplier, is_aligned, from, post_offset })
    }
}

impl ByteExtract {
    pub(crate) fn parse(value: Value<'_>, names: &mut Names) -> Result<Self, Fault> {
        let mut words = value.parts(b',');
        let bytes = words.next().ok_or_else(|| missing(value, "the number of bytes"))?;
        let bytes = amount(bytes, "a number of bytes", 1, 23, names)?;
        let at = words.next().ok_or_else(|| missing(value, "the offset"))?;
        let at = offset(at, names)?;
        let name = words.next().ok_or_else(|| missing(value, "the name of the variable"))?;
        let mut shared = Shared::NONE;
        let (mut multiplier, mut align) = (1, None);
        for word in words {
            if shared.takes(word)? {
                continue;
            }
            let (name, argument) = word.name_and_argument();
            match name.bytes {
                b"multiplier" => multiplier = argument.number("a multiplier", 1, 65_535)? as u64,
                b"align" => align = Some(one_of(argument, "an alignment", &[("2", 2), ("4", 4)])?),
                _ => return Err(unknown(word, "byte_extract")),
            }
        }
        let read = shared.read(value, bytes, at)?;
        Ok(Self { read, multiplier, align, variable: variable(name, names)? })
    }
}

impl ByteMath {
    pub(crate) fn parse(value: Value<'_>, names: &mut Names) -> Result<Self, Fault> {
        let mut shared = Shared::NONE;
        let (mut bytes, mut at, mut arithmetic, mut with, mut result) = (None, None, None, None, None);
        for word in value.parts(b',') {
            let (name, argument) = word.name_and_argument();
            match name.bytes {
                b"bytes" => bytes = Some(amount(argument, "a number of bytes", 1, 10, names)?),
                b"offset" => at = Some(offset(argument, names)?),
                b"oper" => {
                    const OPERATORS: [(&str, Arithmetic); 6] = [
                        ("+", Arithmetic::Add),
                        ("-", Arithmetic::Subtract),
                        ("*", Arithmetic::Multiply),
                        ("/", Arithmetic::Divide),
                        ("<<", Arithmetic::Left),
                        (">>", Arithmetic::Right),
                    ];
                    arithmetic = Some(one_of(argument, "an operator", &OPERATORS)?);
                }
                b"rvalue" => with = Some(amount(argument, "a number", 0, i64::from(u32::MAX), names)?),
                b"result" => result = Some(argument),
                // The byte order and the base have a word before them, which may be missing.
                b"endian" if shared.takes(argument)? => {}
                b"string" if !argument.is_empty() => {
                    shared.is_text = true;
                    if !shared.takes(argument)? {
                        return Err(unknown(argument, "byte_math"));
                    }
                }
                _ if shared.takes(word)? => {}
                _ => return Err(unknown(word, "byte_math")),
            }
        }
        let arithmetic = arithmetic.ok_or_else(|| missing(value, "`oper` with its operator"))?;
        let with = with.ok_or_else(|| missing(value, "`rvalue` with its number"))?;
        let is_shift = matches!(arithmetic, Arithmetic::Left | Arithmetic::Right);
        match with {
            Amount::Is(0) if arithmetic == Arithmetic::Divide => return Err(value.wrong("a division by 0")),
            Amount::Is(64..) if is_shift => return Err(value.wrong("a shift by more than 63 bits")),
            _ => {}
        }
        let bytes = bytes.ok_or_else(|| missing(value, "`bytes` with their number"))?;
        let at = at.ok_or_else(|| missing(value, "`offset` with its number"))?;
        let result = result.ok_or_else(|| missing(value, "`result` with the name of a variable"))?;
        let read = shared.read(value, bytes, at)?;
        Ok(Self { read, arithmetic, with, variable: variable(result, names)? })
    }
}

impl IsDataAt {
    pub(crate) fn parse(value: Value<'_>, names: &Names) -> Result<Self, Fault> {
        let (is_negated, value) = value.negated();
        let value = value.unquoted();
        let mut words = value.parts(b',');
        let at = words.next().ok_or_else(|| missing(value, "the number of bytes"))?;
        let at = amount(at, "a number of bytes", 0, OFFSET, names)?;
        let mut is_relative = false;
        for word in words {
            match word.bytes {
                b"relative" => is_relative = true,
                // Buffers are raw where their name says so.
                b"rawbytes" => {}
                _ => return Err(unknown(word, "isdataat")),
            }
        }
        Ok(Self { is_negated, at, is_relative })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Value<'_> {
        Value::new(text.as_bytes(), 0)
    }

    #[test]
    fn tests_of_numbers() {
        let is = ByteTest::parse(value("4,>,1000,20,relative,little"), &Names::new()).unwrap();
        assert_eq!((is.operator, is.with, is.read.form), (Operator::Above, Amount::Is(1000), Form::Little));
        assert!(is.read.is_relative && !is.is_negated);
        let is = ByteTest::parse(value("5, !=, 0x10, -4, string, hex, relative"), &Names::new()).unwrap();
        assert_eq!((is.operator, is.is_negated, is.read.form), (Operator::Is, true, Form::Text(16)));
        let is = ByteTest::parse(value("1,!&,0x80,2,bitmask 0xf0"), &Names::new()).unwrap();
        assert_eq!((is.operator, is.is_negated, is.read.mask), (Operator::And, true, Some(0xf0)));
    }

    #[test]
    fn jumps_and_variables() {
        let mut names = Names::new();
        let is = ByteExtract::parse(value("2,0,size,relative,multiplier 4,align 2"), &mut names).unwrap();
        assert_eq!((is.multiplier, is.align, is.variable), (4, Some(2), 0));
        let is =
            ByteJump::parse(value("4,12,relative,align,multiplier 2,post_offset -4,from_beginning"), &names)
                .unwrap();
        assert_eq!(
            (is.multiplier, is.is_aligned, is.from, is.post_offset),
            (2, true, JumpFrom::Beginning, Amount::Is(-4))
        );
        let is = ByteTest::parse(value("2,<,size,0"), &names).unwrap();
        assert_eq!(is.with, Amount::Variable(0));
        let text =
            "bytes 4, offset 0, oper +, rvalue size, result sum, relative, endian little, bitmask 0xff";
        let is = ByteMath::parse(value(text), &mut names).unwrap();
        assert_eq!((is.arithmetic, is.with, is.variable), (Arithmetic::Add, Amount::Variable(0), 1));
        let is = IsDataAt::parse(value("!sum,relative"), &names).unwrap();
        assert_eq!((is.is_negated, is.at, is.is_relative), (true, Amount::Variable(1), true));
    }

    #[test]
    fn wrong_values_say_why() {
        for (text, part) in [
            ("4", "operator is missing"),
            ("4,~,1,0", "not an operator"),
            ("4,>,size,0", "neither a number nor a variable"),
            ("9,>,1,0", "1 to 8 bytes"),
            ("4,>,1,0,hex", "need `string`"),
            ("4,>,1,0,string,dce", "contradicts"),
            ("4,>,1,0,big,little", "one byte order"),
            ("4,>,1,0,align", "not an option"),
            ("4,>,1,70000", "an offset"),
        ] {
            let fault = ByteTest::parse(value(text), &Names::new()).unwrap_err().reason;
            assert!(fault.contains(part), "{text}: {fault}");
        }
        let mut names = vec!["a".into()];
        assert!(ByteExtract::parse(value("1,0,a"), &mut names).unwrap_err().reason.contains("earlier"));
        assert!(
            ByteExtract::parse(value("1,0,4"), &mut names).unwrap_err().reason.contains("name of a variable")
        );
        let fault =
            ByteMath::parse(value("bytes 1,offset 0,oper /,rvalue 0,result b"), &mut names).unwrap_err();
        assert!(fault.reason.contains("division"));
    }
}
