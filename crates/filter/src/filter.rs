//! A filter: an expression, compiled for every link type of a run.

use std::sync::OnceLock;

use weir_wire::{Layers, LinkType, MAX_TUNNELS, Packet, Tunnel, decapsulate};

use crate::ast::{Expr, Primitive};
use crate::bpf::{BpfInsn, Insn, extension, op};
use crate::codegen::{Code, Context, Mode, generate, has_bytes_only};
use crate::emit;
use crate::error::{ErrorKind, FilterError};
use crate::fields::Fields;
use crate::graph::{BlockId, FALSE, Graph, TRUE};
use crate::link::finds_network_by_layers;
use crate::machine::{execute, run};
use crate::optimize::{Impossible, optimize};
use crate::parse::parse;
use crate::resolve::Resolve;
use crate::view::{Decapsulated, ENCAPSULATIONS, Encapsulation, Plain};

/// The link types that a filter is compiled for.
pub const LINK_TYPES: &[LinkType] = &[
    LinkType::ETHERNET,
    LinkType::RAW,
    LinkType::NULL,
    LinkType::LOOP,
    LinkType::LINUX_SLL,
    LinkType::LINUX_SLL2,
    LinkType::PPP,
    LinkType::PPP_HDLC,
    LinkType::PPP_ETHER,
    LinkType::C_HDLC,
    LinkType::IEEE802_11,
    LinkType::IEEE802_11_RADIOTAP,
    LinkType::IPV4,
    LinkType::IPV6,
    LinkType::PPI,
    LinkType::NFLOG,
    LinkType::PFLOG,
    LinkType::SLIP,
    LinkType::SLIP_BSDOS,
    LinkType::FRELAY,
    LinkType::FRELAY_WITH_DIR,
    LinkType::FDDI,
    LinkType::IPOIB,
    LinkType::ARCNET,
    LinkType::ARCNET_LINUX,
    LinkType::DSA_TAG_BRCM,
    LinkType::DSA_TAG_BRCM_PREPEND,
    LinkType::DSA_TAG_DSA,
    LinkType::DSA_TAG_EDSA,
];

/// Bytes of addresses and type.
const ETHERNET_HEADER: u32 = 14;

/// Maximum number of instructions in the Linux kernel (BPF_MAXINSNS).
const KERNEL_LIMIT: usize = 4096;

/// The inputs of a filter, apart from its expression.
#[derive(Clone, Copy)]
pub struct Options<'r> {
    /// Whether the verdict is libpcap's, without looking through VLAN tags, MPLS labels and PPPoE.
    pub strict_bpf: bool,
    /// Whether the innermost packet of a tunnel is tested, as if it had been captured without the tunnel.
    pub inner: bool,
    /// Whether packets come from a live source, which reports their direction ([`Packet::hints`]).
    pub live: bool,
    /// With `strict_bpf`: whether packets come from a file in the other byte order, on which [`LinkType::NULL`]
    /// depends. Without `strict_bpf`, both orders are accepted.
    pub swapped: bool,
    /// Number of bytes that a matching packet is truncated to: the return value of a program. At least 1.
    pub snaplen: u32,
    /// Netmask of the interface, for `ip broadcast`, in host byte order.
    pub netmask: Option<u32>,
    /// Resolves names.
    pub resolver: Option<&'r dyn Resolve>,
    /// The fields that an expression over flows and records may test; packets have none.
    pub fields: Option<&'r dyn Fields>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self {
            strict_bpf: false,
            inner: false,
            live: false,
            swapped: false,
            snaplen: 262_144,
            netmask: None,
            resolver: None,
            fields: None,
        }
    }
}

impl std::fmt::Debug for Options<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("strict_bpf", &self.strict_bpf)
            .field("inner", &self.inner)
            .field("live", &self.live)
            .field("swapped", &self.swapped)
            .field("snaplen", &self.snaplen)
            .field("netmask", &self.netmask)
            .field("resolver", &self.resolver.is_some())
            .field("fields", &self.fields.is_some())
            .finish()
    }
}

/// An expression, compiled for one link type.
#[derive(Clone, Debug)]
pub struct Program {
    link: LinkType,
    looks_through: bool,
    /// The program for packets as they are.
    plain: Vec<Insn>,
    /// The program for packets with tags, labels or PPPoE, if it differs.
    encapsulated: Option<Vec<Insn>>,
}

impl Program {
    /// The link type.
    pub fn link(&self) -> LinkType {
        self.link
    }

    /// Number of bytes of the packet to keep, 0 if it does not match: the return value of a BPF program. The packet
    /// must have this link type. `layers`, if given, must be the packet's own.
    pub fn run(&self, packet: &Packet<'_>, layers: Option<&Layers>) -> u32 {
        if self.looks_through
            && let Some(encapsulation) = Encapsulation::of(packet, layers)
        {
            let program = self.encapsulated.as_ref().unwrap_or(&self.plain);
            return run(program, Decapsulated(packet, &encapsulation));
        }
        run(&self.plain, Plain(packet))
    }

    /// Whether a packet matches; `None` if it was rejected because it is too short for a test.
    fn verdict(&self, packet: &Packet<'_>, layers: Option<&Layers>) -> Option<bool> {
        if self.looks_through
            && let Some(encapsulation) = Encapsulation::of(packet, layers)
        {
            let program = self.encapsulated.as_ref().unwrap_or(&self.plain);
            // An empty program rejects everything.
            if program.is_empty() {
                return Some(false);
            }
            return execute(program, Decapsulated(packet, &encapsulation)).map(|bytes| bytes != 0);
        }
        execute(&self.plain, Plain(packet)).map(|bytes| bytes != 0)
    }
}

/// A compiled expression, for packets of every link type.
#[derive(Clone, Debug)]
pub struct Filter {
    expression: String,
    expr: Option<Expr>,
    context: Context,
    inner: bool,
    /// The program of each link type, compiled at first use: most runs have one or two.
    programs: Vec<(LinkType, OnceLock<Result<Program, FilterError>>)>,
    /// The program for packets of every link type outside [`LINK_TYPES`]: it reads bytes, but no headers.
    other: OnceLock<Result<Program, FilterError>>,
}

/// Stands for every link type outside [`LINK_TYPES`].
const OTHER: LinkType = LinkType(u16::MAX);

impl Filter {
    /// Compiles an expression for packets of all [`LINK_TYPES`], each at its first packet. An empty expression matches
    /// every packet.
    ///
    /// A link type without a tested field is not an error: its packets do not match, and [`Filter::error`] gives the
    /// reason. An expression that is invalid, or cannot match, on every link type is an error.
    pub fn compile(expression: &str, options: &Options<'_>) -> Result<Self, FilterError> {
        Self::compile_for(expression, LINK_TYPES, options)
    }

    /// Compiles an expression for these link types only.
    pub fn compile_for(
        expression: &str,
        links: &[LinkType],
        options: &Options<'_>,
    ) -> Result<Self, FilterError> {
        let expr = parse(expression, options.resolver)?;
        let filter = Self::over(expression, expr, links, options);
        match filter.wrong_everywhere() {
            Some(error) => Err(error),
            None => Ok(filter),
        }
    }

    /// Checks the combination of qualifiers of each primitive in a tree.
    ///
    /// # Errors
    ///
    /// The first error. That no packet can match is no error: the expression has tests of fields besides.
    pub(crate) fn check(text: &str, expr: Expr, options: &Options<'_>) -> Result<(), FilterError> {
        let error = Self::over(text, Some(expr), LINK_TYPES, options).wrong_everywhere();
        error.filter(|error| error.kind != ErrorKind::RejectsAll).map_or(Ok(()), Err)
    }

    /// Takes a tree that is known to compile. If it does not compile, it matches nothing.
    pub(crate) fn of(expression: &str, expr: Option<Expr>, options: &Options<'_>) -> Self {
        Self::over(expression, expr, LINK_TYPES, options)
    }

    fn over(expression: &str, expr: Option<Expr>, links: &[LinkType], options: &Options<'_>) -> Self {
        let mode = if options.strict_bpf { Mode::Strict } else { Mode::LookThrough };
        let context = Context {
            mode,
            live: options.live,
            swapped: options.swapped,
            snaplen: options.snaplen.max(1),
            netmask: options.netmask,
        };
        Self {
            expression: expression.to_owned(),
            expr,
            context,
            inner: options.inner,
            programs: links.iter().map(|link| (*link, OnceLock::new())).collect(),
            other: OnceLock::new(),
        }
    }

    /// The error if the expression compiles for no link type; one link type is enough.
    fn wrong_everywhere(&self) -> Option<FilterError> {
        let mut worst: Option<&FilterError> = None;
        for (link, _) in &self.programs {
            let error = self.program(*link)?.as_ref().err()?;
            // A real error is more useful than the message that nothing can match.
            if worst.is_none_or(|w| w.kind == ErrorKind::RejectsAll && error.kind != w.kind) {
                worst = Some(error);
            }
        }
        worst.cloned()
    }

    fn program(&self, link: LinkType) -> Option<&Result<Program, FilterError>> {
        match self.programs.iter().find(|(l, _)| *l == link) {
            Some((_, once)) => Some(once.get_or_init(|| self.for_link(link))),
            None if !LINK_TYPES.contains(&link) && has_bytes_only(link) => {
                Some(self.other.get_or_init(|| self.for_link(OTHER)))
            }
            None => None,
        }
    }

    /// The program for a link type, or the error.
    pub fn for_link(&self, link: LinkType) -> Result<Program, FilterError> {
        // Values found by decoding are always separate from the frame.
        let by_layers = self.context.mode != Mode::Strict && finds_network_by_layers(link);
        let code = self.code(link, if by_layers { Mode::Encapsulated } else { self.context.mode })?;
        let encapsulated = if code.distinguishes && !by_layers {
            match self.code(link, Mode::Encapsulated) {
                Ok(code) => Some(emit::program(&code.graph, code.root)),
                Err(e) if e.kind == ErrorKind::RejectsAll => Some(Vec::new()),
                Err(e) => return Err(e),
            }
        } else {
            None
        };
        Ok(Program {
            link,
            looks_through: self.context.mode != Mode::Strict,
            plain: emit::program(&code.graph, code.root),
            encapsulated,
        })
    }

    fn code(&self, link: LinkType, mode: Mode) -> Result<Code, FilterError> {
        let context = Context { mode, ..self.context };
        let mut code = generate(&self.expression, self.expr.as_ref(), link, context)?;
        if !code.optimizable {
            return Ok(code);
        }
        let error = |kind, message: &str| {
            FilterError::new(kind, 0..self.expression.len(), message).within(&self.expression)
        };
        code.root = optimize(&mut code.graph, code.root).map_err(|impossible| {
            let message = match impossible {
                Impossible::DivisionByZero => "division by zero",
                Impossible::ModulusByZero => "modulus by zero",
                Impossible::LongShift => "shift by more than 31 bits",
            };
            error(ErrorKind::Value, message)
        })?;
        let root = &code.graph[code.root];
        // A packet with tags can match even if one without tags cannot.
        if root.code == op::RET && root.k == 0 && !(mode == Mode::LookThrough && code.distinguishes) {
            return Err(error(ErrorKind::RejectsAll, "expression rejects all packets"));
        }
        Ok(code)
    }

    /// Whether a packet matches. `layers` must be the packet's own ([`weir_wire::decode`]).
    pub fn matches(&self, packet: &Packet<'_>, layers: &Layers) -> bool {
        if !self.inner || layers.tunnel == Tunnel::None {
            return self.decide(packet, layers);
        }
        let (packet, layers) = innermost(packet, layers);
        self.decide(&packet, &layers)
    }

    /// Whether a packet matches, after its innermost packet was selected if required ([`innermost`]); `None` if it was
    /// rejected because it is too short for a test.
    pub(crate) fn verdict(&self, packet: &Packet<'_>, layers: Option<&Layers>) -> Option<bool> {
        match self.program(packet.link) {
            Some(Ok(program)) => program.verdict(packet, layers),
            _ => Some(false),
        }
    }

    fn decide(&self, packet: &Packet<'_>, layers: &Layers) -> bool {
        matches!(self.program(packet.link), Some(Ok(program)) if program.run(packet, Some(layers)) != 0)
    }

    /// The expression.
    pub fn expression(&self) -> &str {
        &self.expression
    }

    /// The expression as a tree; `None` for the empty expression.
    pub fn expr(&self) -> Option<&Expr> {
        self.expr.as_ref()
    }

    /// The reason why packets of a link type can never match; `None` if some may. Expressions about bytes and lengths
    /// can match packets of a link type that is not decoded.
    pub fn error(&self, link: LinkType) -> Option<FilterError> {
        match self.programs.iter().any(|(known, _)| *known == link) {
            true => self.program(link)?.as_ref().err().cloned(),
            false => self.for_link(link).err(),
        }
    }

    /// See [`Expr::only_flow_key`].
    pub fn only_flow_key(&self) -> bool {
        self.expr.as_ref().is_none_or(Expr::only_flow_key)
    }

    /// The program as libpcap compiles it, for packets that are captured in full.
    pub fn classic(&self, link: LinkType) -> Option<Vec<BpfInsn>> {
        let code = self.code(link, self.context.mode).ok()?;
        emit::classic(&code.graph, code.root)
    }

    /// A socket filter for a packet socket of this link type. It passes every packet that this filter matches, and may
    /// pass others, so that the filter must still decide. `None` if the kernel cannot evaluate it.
    ///
    /// The kernel keeps an outer VLAN tag apart from the bytes, while a file has it in them. A packet with a tag, and
    /// without `strict_bpf` a packet with a header that is looked through, is therefore passed; the program decides
    /// the others.
    pub fn to_cbpf(&self, link: LinkType) -> Option<Vec<BpfInsn>> {
        // The capturing program adds other headers; the kernel does not see them.
        let real = matches!(link, LinkType::ETHERNET | LinkType::RAW | LinkType::IPV4 | LinkType::IPV6);
        if !real || self.inner || self.expr.as_ref().is_some_and(looks_into_tunnels) {
            return None;
        }
        let mut code = self.code(link, self.context.mode).ok()?;
        let root = self.with_prologue(&mut code.graph, code.root, link);
        let mut program = emit::classic(&code.graph, root)?;
        if program.len() > KERNEL_LIMIT {
            return None;
        }
        for insn in &mut program {
            *insn = for_kernel(*insn)?;
        }
        Some(program)
    }

    /// Puts tests before a program for packets that the kernel cannot decide.
    fn with_prologue(&self, graph: &mut Graph, root: BlockId, link: LinkType) -> BlockId {
        let accept = graph.block(op::RET, self.context.snaplen, Vec::new());
        let test = |graph: &mut Graph, code: u16, k: u32, value: u32, next: BlockId| {
            let load = graph.stmt(code, k);
            let b = graph.block(op::JMP | op::JEQ | op::K, value, vec![load]);
            graph[b].succ[TRUE] = accept;
            graph[b].succ[FALSE] = next;
            b
        };
        let mut first = root;
        if link == LinkType::ETHERNET {
            if self.context.mode != Mode::Strict {
                for kind in ENCAPSULATIONS {
                    first = test(graph, op::LD | op::ABS | op::H, 12, u32::from(kind), first);
                }
            }
            first = test(graph, op::LD | op::EXT, extension::TAG_APART, 1, first);
        }
        first
    }
}

/// The innermost packet of a tunnel, as if it had been captured without the tunnel; the packet itself if it is not a
/// tunnel.
pub(crate) fn innermost<'a>(packet: &Packet<'a>, layers: &Layers) -> (Packet<'a>, Layers) {
    let (mut innermost, mut tunnel) = (*layers, Tunnel::None);
    for _ in 0..MAX_TUNNELS {
        let Some(inner) = decapsulate(packet, &innermost) else { break };
        tunnel = innermost.tunnel;
        innermost = inner;
    }
    if tunnel == Tunnel::None {
        return (*packet, *layers);
    }
    // A frame, or a packet without a link-layer header that an expression could test.
    let bare = matches!(
        tunnel,
        Tunnel::IpInIp | Tunnel::Gre | Tunnel::GtpU | Tunnel::Teredo | Tunnel::Ayiya | Tunnel::Capwap
    );
    let header = innermost.network.saturating_sub(innermost.link);
    let (start, link) = if !bare && header >= ETHERNET_HEADER {
        (innermost.link, LinkType::ETHERNET)
    } else {
        (innermost.network.max(innermost.link), LinkType::RAW)
    };
    // Without captured bytes nothing can match.
    let data = packet.data.get(start as usize..).unwrap_or_default();
    innermost.network = innermost.network.saturating_sub(start);
    let wire_len = packet.wire_len.saturating_sub(start);
    (Packet { data, wire_len, link, ..*packet }, innermost)
}

/// The first of the kernel's offsets for facts about a packet besides its bytes (linux/filter.h).
const SKF_AD_OFF: u32 = 0xffff_f000;

/// An instruction in the kernel's form; `None` if the kernel has none, or does something else.
fn for_kernel(insn: BpfInsn) -> Option<BpfInsn> {
    const PACKET_TYPE: u32 = 4;
    const VLAN_TAG_PRESENT: u32 = 48;
    match insn.code {
        code if op::class(code) == op::LD && op::mode(code) == op::EXT => {
            Some(match extension::split(insn.k).0 {
                extension::PACKET_TYPE => {
                    BpfInsn { code: op::LD | op::ABS | op::B, k: SKF_AD_OFF + PACKET_TYPE, ..insn }
                }
                extension::TAG_APART => {
                    BpfInsn { code: op::LD | op::ABS | op::B, k: SKF_AD_OFF + VLAN_TAG_PRESENT, ..insn }
                }
                // The packets that pass the prologue have no such header.
                extension::HAS_TYPE => BpfInsn { code: op::LD | op::IMM, k: 0, ..insn },
                extension::VLAN | extension::MPLS | extension::PPPOE => {
                    BpfInsn { code: op::LD | op::IMM, k: extension::ABSENT, ..insn }
                }
                _ => return None,
            })
        }
        code if code & op::RAW != 0 => None,
        // Beyond this the kernel's offsets have another meaning.
        code if op::class(code) == op::LD
            && matches!(op::mode(code), op::ABS | op::IND)
            && insn.k >= 1 << 31 =>
        {
            None
        }
        // The jump loops.
        code if code == op::JMP | op::JA && insn.k >= 1 << 31 => None,
        // A shift by more than the width of the word does not give 0 in the kernel.
        code if op::class(code) == op::ALU
            && matches!(op::operator(code), op::LSH | op::RSH)
            && (op::source(code) == op::X || insn.k > 31) =>
        {
            None
        }
        _ => Some(insn),
    }
}

/// Whether an expression looks into a tunnel and may test another tag inside.
fn looks_into_tunnels(expr: &Expr) -> bool {
    let mut found = false;
    expr.visit(&mut |test| found |= matches!(test.primitive, Primitive::Geneve(_) | Primitive::Vxlan(_)));
    found
}
