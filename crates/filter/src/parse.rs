//! From tokens to a tree: the grammar of pcap-filter(7), by recursive descent.
//!
//! An id without qualifiers takes those of the operand before it (`host a or b`), and in parentheses those before the
//! parenthesis. A parenthesis can hold a number, an arithmetic expression, a list of ids or an expression. Only its
//! content shows which, so that the parser reads an [`Operand`] and checks it afterwards.

use std::ops::Range;

use strsim::osa_distance;

use crate::ast::{
    Arithmetic, ByteOperator, Connective, Expr, Id, IdKind, LlcType, Pf, Primitive, Qualifiers, Relation,
    Resolved, Side, Test,
};
use crate::bpf::op;
use crate::error::{ErrorKind, FilterError};
use crate::fields::{FieldTest, Fields, Operation, is_field, table_test};
use crate::lex::{Kind, Token, WORDS, Word, tokens};
use crate::names::{
    CONSTANTS, LLC_SUPERVISORY, LLC_UNNUMBERED, PF_ACTIONS, PF_REASONS, PROTOCOLS, Protocol, SERVICES,
    WLAN_DIRECTIONS, WLAN_SUBTYPES, WLAN_TYPES, comparison, lookup_any_case,
};
use crate::resolve::Resolve;

/// Maximum length of an expression in bytes: 10,000 hosts take a quarter of a megabyte.
const MAX_LENGTH: usize = 4 << 20;

/// Maximum number of open parentheses, negations and indexes.
const MAX_DEPTH: usize = 128;

/// Parses an expression; `None` for the empty expression, which every packet matches.
pub(crate) fn parse(text: &str, resolver: Option<&dyn Resolve>) -> Result<Option<Expr>, FilterError> {
    parse_with_fields(text, resolver, None)
}

/// Parses an expression that may test fields.
pub(crate) fn parse_with_fields(
    text: &str,
    resolver: Option<&dyn Resolve>,
    fields: Option<&dyn Fields>,
) -> Result<Option<Expr>, FilterError> {
    parse_tokens(text, resolver, fields).map_err(|e| e.within(text).answered())
}

fn parse_tokens(
    text: &str,
    resolver: Option<&dyn Resolve>,
    fields: Option<&dyn Fields>,
) -> Result<Option<Expr>, FilterError> {
    if text.len() > MAX_LENGTH {
        let message = format!("expression of {} bytes is longer than {MAX_LENGTH}", text.len());
        return Err(FilterError::new(ErrorKind::TooComplex, 0..0, message));
    }
    let tokens = tokens(text, fields)?;
    if tokens.is_empty() {
        return Ok(None);
    }
    let mut parser = Parser { text, tokens, at: 0, depth: 0, resolver, fields };
    let (expr, _) = parser.expression(None)?;
    match parser.peek() {
        None => Ok(Some(expr)),
        Some(_) => Err(parser.unexpected("`and`, `or` or the end")),
    }
}

/// Qualifiers that an id inherits; `None` if there are none.
type Inherited = Option<Qualifiers>;

/// The kind of an operand of `and` and `or`.
enum Operand {
    /// A number, which is an id or arithmetic.
    Number(u32),
    Arithmetic(Arithmetic),
    /// An id that does not begin with a parenthesis.
    Id(Expr, Inherited),
    /// A list of ids in parentheses.
    Ids(Expr, Inherited),
    Term(Expr, Inherited),
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    resolver: Option<&'a dyn Resolve>,
    fields: Option<&'a dyn Fields>,
}

type Parsed<T> = Result<T, FilterError>;

impl Parser<'_> {
    fn peek(&self) -> Option<&Kind> {
        self.tokens.get(self.at).map(|t| &t.kind)
    }

    fn peek_word(&self) -> Option<Word> {
        match self.peek() {
            Some(Kind::Word(word)) => Some(*word),
            _ => None,
        }
    }

    fn sign(&mut self, sign: &str) -> bool {
        let found = matches!(self.peek(), Some(Kind::Sign(s)) if *s == sign);
        if found {
            self.at += 1;
        }
        found
    }

    fn word(&mut self, word: Word) -> bool {
        let found = self.peek_word() == Some(word);
        if found {
            self.at += 1;
        }
        found
    }

    fn span(&self) -> Range<usize> {
        self.tokens.get(self.at).map_or(self.text.len()..self.text.len(), |t| t.span.clone())
    }

    fn since(&self, from: usize) -> Range<usize> {
        let start = self.tokens.get(from).map_or(self.text.len(), |t| t.span.start);
        let end = self.at.checked_sub(1).and_then(|i| self.tokens.get(i)).map_or(start, |t| t.span.end);
        start..end.max(start)
    }

    fn text_of(&self, span: &Range<usize>) -> &str {
        self.text.get(span.clone()).unwrap_or("")
    }

    fn unexpected(&self, expected: &str) -> FilterError {
        let span = self.span();
        let before = self.at.checked_sub(1).and_then(|i| self.tokens.get(i)).map(|t| self.text_of(&t.span));
        let after = before.map_or(String::new(), |word| format!(" after `{word}`"));
        let mut message = format!("expected {expected}{after}");
        match self.peek() {
            None => message.push_str(", found the end"),
            Some(kind) => {
                message.push_str(&format!(", found `{}`", self.text_of(&span)));
                if let Kind::Name(name) = kind
                    && let Some(near) = nearest(name)
                {
                    message.push_str(&format!("; did you mean `{near}`?"));
                }
            }
        }
        FilterError::new(ErrorKind::Syntax, span, message)
    }

    fn enter(&mut self) -> Parsed<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            let message = format!("more than {MAX_DEPTH} levels of nesting");
            return Err(FilterError::new(ErrorKind::TooComplex, self.span(), message));
        }
        Ok(())
    }

    fn leave(&mut self) {
        self.depth -= 1;
    }

    /// `term { (and | or) (term | id) }`.
    fn expression(&mut self, inherited: Inherited) -> Parsed<(Expr, Inherited)> {
        let start = self.at;
        match self.operand(inherited)? {
            Operand::Term(first, qualifiers) => self.chain(first, qualifiers, false),
            _ => {
                let span = self.since(start);
                let found = self.text_of(&span).to_owned();
                Err(FilterError::new(
                    ErrorKind::Syntax,
                    span,
                    format!("expected a primitive, found `{found}`{}", hint(&found)),
                ))
            }
        }
    }

    /// The operands after the first. All operands in a list of ids must be ids.
    fn chain(&mut self, first: Expr, mut qualifiers: Inherited, ids: bool) -> Parsed<(Expr, Inherited)> {
        let mut rest = Vec::new();
        loop {
            let connective = match self.peek_word() {
                Some(Word::And) => Connective::And,
                Some(Word::Or) => Connective::Or,
                _ => break,
            };
            self.at += 1;
            let start = self.at;
            let (operand, next) = match self.operand(qualifiers)? {
                Operand::Number(value) => (self.number(value, qualifiers, start)?, qualifiers),
                Operand::Id(expr, q) | Operand::Ids(expr, q) => (expr, q),
                Operand::Term(expr, q) if !ids => (expr, q),
                Operand::Term(..) | Operand::Arithmetic(_) => {
                    self.at = start;
                    return Err(self.unexpected(if ids { "an id" } else { "a primitive or an id" }));
                }
            };
            qualifiers = next;
            rest.push((connective, operand));
        }
        let expr = if rest.is_empty() { first } else { Expr::Chain(Box::new(first), rest) };
        Ok((expr, qualifiers))
    }

    fn number(&self, value: u32, inherited: Inherited, start: usize) -> Parsed<Expr> {
        self.id_test(Id::Number(value), inherited, start)
    }

    fn id_test(&self, id: Id, inherited: Inherited, start: usize) -> Parsed<Expr> {
        let span = self.since(start);
        let Some(qualifiers) = inherited else {
            let found = self.text_of(&span);
            let message = format!("`{found}` has no qualifier{}", hint(found));
            return Err(FilterError::new(ErrorKind::Syntax, span, message));
        };
        let id = match id {
            Id::Name(name, _) => Id::Name(name.clone(), self.resolve(&name, qualifiers)),
            id => id,
        };
        Ok(Expr::Test(Test { primitive: Primitive::Id(qualifiers, id), span }))
    }

    fn resolve(&self, name: &str, qualifiers: Qualifiers) -> Resolved {
        let mut resolved = Resolved::default();
        let Some(resolver) = self.resolver else { return resolved };
        match qualifiers.kind {
            IdKind::Default | IdKind::Host | IdKind::Gateway => {
                if qualifiers.protocol == Some(Protocol::Link) || qualifiers.kind == IdKind::Gateway {
                    resolved.mac = resolver.mac(name);
                }
                if qualifiers.protocol != Some(Protocol::Link) {
                    resolved.addresses = resolver.addresses(name);
                }
            }
            IdKind::Net => resolved.network = resolver.network(name),
            _ => {}
        }
        resolved
    }

    /// One operand, with the relation whose left side it is.
    fn operand(&mut self, inherited: Inherited) -> Parsed<Operand> {
        let start = self.at;
        if self.word(Word::Not) {
            self.enter()?;
            let inner = self.operand(inherited)?;
            self.leave();
            return Ok(match inner {
                Operand::Number(value) => {
                    let id = self.number(value, inherited, start + 1)?;
                    Operand::Id(Expr::Not(Box::new(id)), inherited)
                }
                Operand::Id(expr, q) | Operand::Ids(expr, q) => Operand::Id(Expr::Not(Box::new(expr)), q),
                Operand::Term(expr, q) => Operand::Term(Expr::Not(Box::new(expr)), q),
                Operand::Arithmetic(_) => return Err(self.unexpected("a relation such as `=`")),
            });
        }
        let left = self.primary(inherited)?;
        let arithmetic = match left {
            Operand::Number(value) if self.at_operator() => Arithmetic::Number(value),
            Operand::Arithmetic(a) => a,
            other => return Ok(other),
        };
        let left = self.operators(arithmetic, 0, start)?;
        self.relation(left, start)
    }

    /// `left relation right`, or `left` alone if a parenthesis closes it.
    fn relation(&mut self, left: Arithmetic, start: usize) -> Parsed<Operand> {
        let found = match self.peek() {
            Some(Kind::Sign(sign)) => comparison(sign),
            _ => None,
        };
        let Some((jump, reversed)) = found else {
            return match self.peek() {
                Some(Kind::Sign(")" | "]" | ":")) => Ok(Operand::Arithmetic(left)),
                _ => Err(self.unexpected("a relation such as `=`")),
            };
        };
        self.at += 1;
        let right_at = self.at;
        let right = self.factor()?;
        let right = self.operators(right, 0, right_at)?;
        let primitive = Primitive::Relation(Relation { jump, reversed, left, right });
        Ok(Operand::Term(Expr::Test(Test { primitive, span: self.since(start) }), None))
    }

    /// Whether an operator or a relation follows, so that the number before it is arithmetic.
    fn at_operator(&self) -> bool {
        match self.peek() {
            Some(Kind::Sign(sign)) => comparison(sign).is_some() || binary(sign).is_some(),
            _ => false,
        }
    }

    /// Binary operators that bind at least as strongly as `weakest`, by precedence climbing.
    fn operators(&mut self, mut left: Arithmetic, weakest: u8, start: usize) -> Parsed<Arithmetic> {
        while let Some(Kind::Sign(sign)) = self.peek() {
            let Some(found) = binary(sign).filter(|found| found.before >= weakest) else { break };
            let operator = found.operator;
            self.at += 1;
            let right_at = self.at;
            let mut right = self.factor()?;
            while let Some(Kind::Sign(sign)) = self.peek() {
                match binary(sign) {
                    Some(next) if next.before > found.after => {
                        self.enter()?;
                        right = self.operators(right, next.before, right_at)?;
                        self.leave();
                    }
                    _ => break,
                }
            }
            left = match left {
                Arithmetic::Chain(first, mut rest, _) => {
                    rest.push((operator, right));
                    Arithmetic::Chain(first, rest, self.since(start))
                }
                first => Arithmetic::Chain(Box::new(first), vec![(operator, right)], self.since(start)),
            };
        }
        Ok(left)
    }

    /// An operand of arithmetic.
    fn factor(&mut self) -> Parsed<Arithmetic> {
        let start = self.at;
        match self.primary(None)? {
            Operand::Number(value) => Ok(Arithmetic::Number(value)),
            Operand::Arithmetic(a) => Ok(a),
            _ => {
                self.at = start;
                Err(self.unexpected("a number, `len` or a field such as `tcp[13]`"))
            }
        }
    }

    /// An operand without the operators after it.
    fn primary(&mut self, inherited: Inherited) -> Parsed<Operand> {
        let start = self.at;
        let Some(kind) = self.peek().cloned() else {
            return Err(self.unexpected("a primitive"));
        };
        match kind {
            Kind::Number(value) => {
                self.at += 1;
                Ok(Operand::Number(value))
            }
            Kind::Sign("(") => self.parenthesis(inherited),
            Kind::Sign("-") => {
                self.at += 1;
                self.enter()?;
                let inner_at = self.at;
                let inner = self.factor()?;
                let inner = self.operators(inner, TIGHTEST, inner_at)?;
                self.leave();
                Ok(Operand::Arithmetic(Arithmetic::Negative(Box::new(inner))))
            }
            Kind::Word(Word::Len) => {
                self.at += 1;
                Ok(Operand::Arithmetic(Arithmetic::Len))
            }
            Kind::Protocol(protocol) => self.protocol(protocol),
            Kind::Word(word) => self.primitive(word, start),
            Kind::Field(test) => Ok(self.field(*test)),
            Kind::Dotted | Kind::V6(_) | Kind::Mac(_) | Kind::Arcnet(_) | Kind::Name(_) => {
                if let Kind::Name(name) = &kind
                    && let Some(found) = self.fields.and_then(|fields| is_field(fields, name))
                {
                    let field =
                        found.map_err(|message| FilterError::new(ErrorKind::Value, self.span(), message))?;
                    return Ok(self.field(FieldTest { field, operation: Operation::Present }));
                }
                // After `port domain or` a name is a port.
                if let (Kind::Name(name), None) = (&kind, inherited)
                    && let Some(test) = self.fields.and_then(|fields| table_test(fields, name))
                {
                    return Ok(self.field(test));
                }
                let id = self.plain_id()?;
                Ok(Operand::Id(self.id_test(id, inherited, start)?, inherited))
            }
            Kind::Sign(_) => Err(self.unexpected("a primitive")),
        }
    }

    /// The test of a field that stands here.
    fn field(&mut self, test: FieldTest) -> Operand {
        let span = self.span();
        self.at += 1;
        Operand::Term(Expr::Test(Test { primitive: Primitive::Field(Box::new(test)), span }), None)
    }

    fn parenthesis(&mut self, inherited: Inherited) -> Parsed<Operand> {
        self.at += 1;
        self.enter()?;
        let start = self.at;
        let inside = self.operand(inherited)?;
        let result = match inside {
            Operand::Arithmetic(a) => Operand::Arithmetic(a),
            Operand::Number(value) => match self.peek_word() {
                Some(Word::And | Word::Or) => {
                    let first = self.number(value, inherited, start)?;
                    let (ids, q) = self.chain(first, inherited, true)?;
                    Operand::Ids(ids, q)
                }
                _ => Operand::Number(value),
            },
            Operand::Id(first, q) => {
                let (ids, q) = self.chain(first, q, true)?;
                Operand::Ids(ids, q)
            }
            Operand::Ids(..) => {
                self.at = start;
                return Err(self.unexpected("an id or a primitive"));
            }
            Operand::Term(first, q) => {
                let (expr, _) = self.chain(first, q, false)?;
                Operand::Term(expr, inherited)
            }
        };
        if !self.sign(")") {
            return Err(self.unexpected("`)`"));
        }
        self.leave();
        Ok(result)
    }

    /// An id after its qualifiers.
    fn id(&mut self, qualifiers: Qualifiers) -> Parsed<Operand> {
        let start = self.at;
        let inherited = Some(qualifiers);
        let expected = match qualifiers.kind {
            IdKind::Port | IdKind::PortRange => "a port",
            IdKind::Proto | IdKind::ProtoChain => "a protocol",
            IdKind::Net => "a network",
            IdKind::Default | IdKind::Host | IdKind::Gateway => "an address",
        };
        match self.peek() {
            Some(
                Kind::Number(_) | Kind::Dotted | Kind::V6(_) | Kind::Mac(_) | Kind::Arcnet(_) | Kind::Name(_),
            ) => {
                let id = self.plain_id()?;
                Ok(Operand::Term(self.id_test(id, inherited, start)?, inherited))
            }
            Some(Kind::Sign("(")) => match self.parenthesis(inherited)? {
                Operand::Number(value) => Ok(Operand::Term(self.number(value, inherited, start)?, inherited)),
                Operand::Ids(expr, q) | Operand::Id(expr, q) => Ok(Operand::Term(expr, q)),
                Operand::Arithmetic(_) | Operand::Term(..) => {
                    self.at = start;
                    Err(self.unexpected(expected))
                }
            },
            Some(Kind::Word(Word::Not)) => {
                self.at += 1;
                self.enter()?;
                let inner = self.id(qualifiers)?;
                self.leave();
                match inner {
                    Operand::Term(expr, q) => Ok(Operand::Term(Expr::Not(Box::new(expr)), q)),
                    other => Ok(other),
                }
            }
            _ => Err(self.unexpected(expected)),
        }
    }

    /// An id by itself.
    fn plain_id(&mut self) -> Parsed<Id> {
        let span = self.span();
        let text = self.text_of(&span).to_owned();
        let kind = self.peek().cloned();
        self.at += 1;
        Ok(match kind {
            Some(Kind::Number(value)) => Id::Number(value),
            Some(Kind::Dotted) => {
                if self.sign("/") {
                    Id::Prefix(text, self.plain_number("a prefix length")?)
                } else if self.word(Word::Mask) {
                    let mask = self.span();
                    if self.peek() != Some(&Kind::Dotted) {
                        return Err(self.unexpected("a netmask such as `255.255.0.0`"));
                    }
                    self.at += 1;
                    Id::Masked(text, self.text_of(&mask).to_owned())
                } else {
                    Id::Dotted(text)
                }
            }
            Some(Kind::V6(address)) => {
                let length = if self.sign("/") { Some(self.plain_number("a prefix length")?) } else { None };
                Id::V6(address, text, length)
            }
            Some(Kind::Mac(address)) => Id::Mac(address),
            Some(Kind::Arcnet(address)) => Id::Arcnet(address),
            Some(Kind::Name(name)) => Id::Name(name, Resolved::default()),
            _ => {
                self.at -= 1;
                return Err(self.unexpected("an id"));
            }
        })
    }

    fn plain_number(&mut self, expected: &str) -> Parsed<u32> {
        match self.peek() {
            Some(Kind::Number(value)) => {
                let value = *value;
                self.at += 1;
                Ok(value)
            }
            _ => Err(self.unexpected(expected)),
        }
    }

    /// An optional number, with or without parentheses.
    fn optional_number(&mut self) -> Option<u32> {
        let start = self.at;
        let mut open = 0;
        while self.sign("(") {
            open += 1;
        }
        if let Some(Kind::Number(value)) = self.peek() {
            let value = *value;
            self.at += 1;
            while open > 0 && self.sign(")") {
                open -= 1;
            }
            if open == 0 {
                return Some(value);
            }
        }
        self.at = start;
        None
    }

    /// Parses a primitive that begins with a protocol: a field, an id, or the protocol itself.
    fn protocol(&mut self, protocol: Protocol) -> Parsed<Operand> {
        let start = self.at;
        self.at += 1;
        if self.sign("[") {
            self.enter()?;
            let offset_at = self.at;
            let offset = self.factor()?;
            let offset = self.operators(offset, 0, offset_at)?;
            let size = if self.sign(":") { self.plain_number("a size: 1, 2 or 4")? } else { 1 };
            if !self.sign("]") {
                return Err(self.unexpected("`]`"));
            }
            self.leave();
            let span = self.since(start);
            return Ok(Operand::Arithmetic(Arithmetic::Load(protocol, Box::new(offset), size, span)));
        }
        match self.peek_word() {
            Some(word) if qualifies(word) => self.qualified(Some(protocol), start),
            _ => {
                let primitive = Primitive::Protocol(protocol);
                Ok(Operand::Term(Expr::Test(Test { primitive, span: self.since(start) }), None))
            }
        }
    }

    /// Parses a primitive that begins with a keyword.
    fn primitive(&mut self, word: Word, start: usize) -> Parsed<Operand> {
        if qualifies(word) {
            return self.qualified(None, start);
        }
        self.at += 1;
        let primitive = match word {
            Word::Less => Primitive::Less(self.plain_number("a length")?),
            Word::Greater => Primitive::Greater(self.plain_number("a length")?),
            Word::Byte => self.byte()?,
            Word::Inbound => Primitive::Inbound,
            Word::Outbound => Primitive::Outbound,
            Word::IfIndex => Primitive::Interface(self.plain_number("an interface index")?),
            Word::Vlan => Primitive::Vlan(self.optional_number()),
            Word::Mpls => Primitive::Mpls(self.optional_number()),
            Word::Pppoed => Primitive::PppoeDiscovery,
            Word::Pppoes => Primitive::PppoeSession(self.optional_number()),
            Word::Geneve => Primitive::Geneve(self.optional_number()),
            Word::Vxlan => Primitive::Vxlan(self.optional_number()),
            Word::Llc => self.llc()?,
            Word::RuleNumber => Primitive::Pf(Pf::Rule(self.plain_number("a rule number")?)),
            Word::PfSubrule => Primitive::Pf(Pf::Subrule(self.plain_number("a rule number")?)),
            Word::PfInterface => Primitive::Pf(Pf::Interface(self.plain_name("an interface name")?)),
            Word::PfRuleset => Primitive::Pf(Pf::Ruleset(self.plain_name("a ruleset name")?)),
            Word::PfReason => Primitive::Pf(Pf::Reason(match self.peek() {
                Some(Kind::Number(_)) => self.plain_number("a reason")?,
                _ => self.known(PF_REASONS, "PF reason")?,
            })),
            Word::PfAction => Primitive::Pf(Pf::Action(self.known(PF_ACTIONS, "PF action")?)),
            Word::Elsewhere(name, link) => self.elsewhere(name, link)?,
            _ => {
                self.at -= 1;
                return Err(self.unexpected("a primitive"));
            }
        };
        Ok(Operand::Term(Expr::Test(Test { primitive, span: self.since(start) }), None))
    }

    /// Parses the rest after a word of a link type that is not decoded: a relation, a value, or nothing.
    fn elsewhere(&mut self, name: &'static str, link: &'static str) -> Parsed<Primitive> {
        if matches!(self.peek(), Some(Kind::Sign(sign)) if comparison(sign).is_some()) {
            self.at += 1;
        }
        if matches!(self.peek(), Some(Kind::Number(_) | Kind::Name(_))) {
            self.at += 1;
        }
        Ok(Primitive::Elsewhere(name, link))
    }

    fn plain_name(&mut self, expected: &str) -> Parsed<String> {
        match self.peek() {
            Some(Kind::Name(name)) => {
                let name = name.clone();
                self.at += 1;
                Ok(name)
            }
            _ => Err(self.unexpected(expected)),
        }
    }

    /// A name of a table.
    fn known(&mut self, table: &[(&str, u32)], what: &str) -> Parsed<u32> {
        let before = self.at;
        let name = self.plain_name(&format!("a {what}"))?;
        lookup_any_case(table, &name).ok_or_else(|| {
            self.at = before;
            self.unknown(what, &name)
        })
    }

    fn byte(&mut self) -> Parsed<Primitive> {
        let index = self.plain_number("an offset")?;
        let operator = match self.peek() {
            Some(Kind::Sign("=")) => ByteOperator::Equal,
            Some(Kind::Sign("<")) => ByteOperator::Less,
            Some(Kind::Sign(">")) => ByteOperator::Greater,
            Some(Kind::Sign("&")) => ByteOperator::And,
            Some(Kind::Sign("|")) => ByteOperator::Or,
            _ => return Err(self.unexpected("`=`, `<`, `>`, `&` or `|`")),
        };
        self.at += 1;
        Ok(Primitive::Byte(index, operator, self.plain_number("a value")?))
    }

    fn llc(&mut self) -> Parsed<Primitive> {
        let found = match self.peek() {
            Some(Kind::Name(name)) => name.to_ascii_lowercase(),
            Some(Kind::Word(Word::RuleNumber)) => "rnr".to_owned(),
            _ => return Ok(Primitive::Llc(LlcType::Any)),
        };
        let kind = match found.as_str() {
            "i" => LlcType::Information,
            "s" => LlcType::Supervisory,
            "u" => LlcType::Unnumbered,
            name => match (lookup_any_case(LLC_SUPERVISORY, name), lookup_any_case(LLC_UNNUMBERED, name)) {
                (Some(control), _) => LlcType::SupervisoryOf(control),
                (_, Some(control)) => LlcType::UnnumberedOf(control),
                _ => return Err(self.unknown("LLC type name", &found)),
            },
        };
        self.at += 1;
        Ok(Primitive::Llc(kind))
    }

    fn unknown(&self, what: &str, found: &str) -> FilterError {
        FilterError::new(ErrorKind::Value, self.span(), format!("unknown {what} \"{found}\""))
    }

    /// A name of a table, or a number within a mask.
    fn named(&mut self, table: &[(&str, u32)], mask: u32, what: &str) -> Parsed<u32> {
        let value = match self.peek() {
            Some(Kind::Number(value)) if value & !mask == 0 => *value,
            Some(Kind::Number(value)) => {
                let message = format!("invalid 802.11 {what} value 0x{value:02x}");
                return Err(FilterError::new(ErrorKind::Value, self.span(), message));
            }
            Some(Kind::Name(name)) => match lookup_any_case(table, name) {
                Some(value) => value,
                None => return Err(self.unknown(&format!("802.11 {what} name"), name)),
            },
            _ => return Err(self.unexpected(&format!("a frame {what}"))),
        };
        self.at += 1;
        Ok(value)
    }

    fn wlan(&mut self, word: Word) -> Parsed<Primitive> {
        const TYPE: u32 = 0x0c;
        const SUBTYPE: u32 = 0xf0;
        match word {
            Word::Type => {
                let kind = self.named(WLAN_TYPES, TYPE, "type")?;
                if !self.word(Word::Subtype) {
                    return Ok(Primitive::WlanType { value: kind, mask: TYPE });
                }
                let table =
                    WLAN_SUBTYPES.iter().find(|(t, _)| *t == kind).map_or(&[][..], |(_, table)| *table);
                let subtype = self.named(table, SUBTYPE, "subtype")?;
                Ok(Primitive::WlanType { value: kind | subtype, mask: TYPE | SUBTYPE })
            }
            Word::Subtype => {
                let Some(Kind::Name(name)) = self.peek() else {
                    return Err(self.unexpected("a frame subtype"));
                };
                let found = WLAN_SUBTYPES
                    .iter()
                    .find_map(|(kind, table)| lookup_any_case(table, name).map(|s| kind | s));
                let Some(value) = found else {
                    return Err(self.unknown("802.11 type name", name));
                };
                self.at += 1;
                Ok(Primitive::WlanType { value, mask: TYPE | SUBTYPE })
            }
            _ => Ok(Primitive::WlanDirection(self.named(WLAN_DIRECTIONS, u32::MAX, "direction")?)),
        }
    }

    /// Qualifiers and the id after them; the protocol has been read.
    fn qualified(&mut self, protocol: Option<Protocol>, start: usize) -> Parsed<Operand> {
        let whole = |this: &Self, primitive| {
            Ok(Operand::Term(Expr::Test(Test { primitive, span: this.since(start) }), None))
        };
        let Some(word) = self.peek_word() else {
            return Err(self.unexpected("a qualifier"));
        };
        let mut qualifiers = Qualifiers { protocol, ..Qualifiers::default() };
        match word {
            Word::Broadcast => {
                self.at += 1;
                return whole(self, Primitive::Broadcast(protocol));
            }
            Word::Multicast => {
                self.at += 1;
                return whole(self, Primitive::Multicast(protocol));
            }
            Word::Type | Word::Subtype | Word::Dir => {
                self.at += 1;
                let primitive = self.wlan(word)?;
                return whole(self, primitive);
            }
            Word::Proto | Word::ProtoChain | Word::Gateway => {
                self.at += 1;
                qualifiers.kind = match word {
                    Word::Proto => IdKind::Proto,
                    Word::ProtoChain => IdKind::ProtoChain,
                    _ => IdKind::Gateway,
                };
                return self.id(qualifiers);
            }
            _ => {}
        }
        if let Some(side) = self.side()? {
            qualifiers.direction = side;
        }
        let kind = match self.peek_word() {
            Some(Word::Host) => Some(IdKind::Host),
            Some(Word::Net) => Some(IdKind::Net),
            Some(Word::Port) => Some(IdKind::Port),
            Some(Word::PortRange) => Some(IdKind::PortRange),
            _ => None,
        };
        if let Some(kind) = kind {
            self.at += 1;
            qualifiers.kind = kind;
        }
        self.id(qualifiers)
    }

    fn side(&mut self) -> Parsed<Option<Side>> {
        let Some(word) = self.peek_word() else { return Ok(None) };
        let side = match word {
            Word::Src => Side::Src,
            Word::Dst => Side::Dst,
            Word::Addr1 => Side::Addr1,
            Word::Addr2 => Side::Addr2,
            Word::Addr3 => Side::Addr3,
            Word::Addr4 => Side::Addr4,
            Word::Ra => Side::Ra,
            Word::Ta => Side::Ta,
            _ => return Ok(None),
        };
        self.at += 1;
        let (other, side_name) = match side {
            Side::Src => (Word::Dst, "`dst`"),
            Side::Dst => (Word::Src, "`src`"),
            other => return Ok(Some(other)),
        };
        let both = match self.peek_word() {
            Some(Word::Or) => Side::SrcOrDst,
            Some(Word::And) => Side::SrcAndDst,
            _ => return Ok(Some(side)),
        };
        self.at += 1;
        if !self.word(other) {
            return Err(self.unexpected(side_name));
        }
        Ok(Some(both))
    }
}

fn qualifies(word: Word) -> bool {
    use Word::{
        Addr1, Addr2, Addr3, Addr4, Broadcast, Dir, Dst, Gateway, Host, Multicast, Net, Port, PortRange,
        Proto, ProtoChain, Ra, Src, Subtype, Ta, Type,
    };
    matches!(
        word,
        Src | Dst
            | Addr1
            | Addr2
            | Addr3
            | Addr4
            | Ra
            | Ta
            | Host
            | Net
            | Port
            | PortRange
            | Proto
            | ProtoChain
            | Gateway
            | Broadcast
            | Multicast
            | Type
            | Subtype
            | Dir
    )
}

/// Precedences of a binary operator of arithmetic.
struct Binary {
    operator: u16,
    /// Precedence towards the operand on its left.
    before: u8,
    /// Precedence towards the operand on its right.
    after: u8,
}

/// Higher than every declared precedence.
const TIGHTEST: u8 = 9;

/// The operator of a sign. `%` and `^` have no precedence in libpcap's grammar, so that they always take the operand
/// before them and keep the one after: `a * b % c + d` is `a * (b % (c + d))`.
fn binary(sign: &str) -> Option<Binary> {
    let (operator, before, after) = match sign {
        "|" => (op::OR, 1, 1),
        "&" => (op::AND, 2, 2),
        "<<" => (op::LSH, 3, 3),
        ">>" => (op::RSH, 3, 3),
        "+" => (op::ADD, 4, 4),
        "-" => (op::SUB, 4, 4),
        "*" => (op::MUL, 5, 5),
        "/" => (op::DIV, 5, 5),
        "%" => (op::MOD, TIGHTEST, 0),
        "^" => (op::XOR, TIGHTEST, 0),
        _ => return None,
    };
    Some(Binary { operator, before, after })
}

/// The likely intention after an id without qualifiers.
fn hint(found: &str) -> String {
    match nearest(found) {
        Some(near) if near != found => return format!("; did you mean `{near}`?"),
        Some(flag) if flag.starts_with("tcp-") => {
            return format!("; did you mean `tcp[tcpflags] & {flag} != 0`?");
        }
        Some(kind) if kind.starts_with("icmp-") => {
            return format!("; did you mean `icmp[icmptype] = {kind}`?");
        }
        _ => {}
    }
    // A service name often means its port.
    if SERVICES.iter().any(|(name, ..)| *name == found) {
        return format!("; did you mean `port {found}`?");
    }
    if found == "dns" {
        return "; did you mean `port domain`?".to_owned();
    }
    match found.bytes().next() {
        Some(b) if b.is_ascii_digit() && found.contains('.') => {
            format!("; did you mean `host {found}`?")
        }
        Some(b) if b.is_ascii_digit() && !found.contains(' ') => format!("; did you mean `port {found}`?"),
        Some(_) if found.contains("::") => format!("; did you mean `host {found}`?"),
        Some(_) if !found.contains(' ') && found.contains('.') => format!("; did you mean `host {found}`?"),
        _ => String::new(),
    }
}

/// The word of the language that `name` is a misspelling of.
fn nearest(name: &str) -> Option<&'static str> {
    if !name.bytes().next()?.is_ascii_alphabetic() || name.len() < 2 || name.len() > 32 {
        return None;
    }
    let name = name.to_ascii_lowercase();
    let words = WORDS.iter().filter(|(_, word)| !matches!(word, Word::Elsewhere(..))).map(|w| w.0);
    let words = PROTOCOLS.iter().map(|p| p.0).chain(words).chain(CONSTANTS.iter().map(|c| c.0));
    let max = if name.len() <= 4 { 1 } else { 2 };
    words
        .map(|word| (osa_distance(&name, word), word))
        .filter(|(d, word)| *d <= max && *d < word.len())
        .min_by_key(|(d, _)| *d)
        .map(|(_, word)| word)
}
