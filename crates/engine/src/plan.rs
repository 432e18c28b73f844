//! The compiled list of subscriptions: immutable, shared by all workers.

use crate::{Feed, Function, FunctionSpec};
use weir_api::{FunctionCall, Level, SubscriptionSpec};
use weir_filter::{Filter, FilterError, Options};

/// What a plan needs to know besides its subscriptions.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How expressions are read.
    pub filter: Options<'static>,
    /// What is done about checksums.
    pub checksum: ChecksumMode,
    /// What hashes are keyed with.
    pub seed: u64,
}

/// What is done about checksums.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ChecksumMode {
    /// They are looked at in a part of the packets, and said to be offloaded or wrong; nothing is left out.
    #[default]
    Auto,
    /// All are verified, and a packet with a wrong one is not part of any flow.
    On,
    /// None is looked at.
    Off,
}

/// Subscriptions, compiled.
pub struct Plan {
    pub(crate) scope: Option<Filter>,
    pub(crate) subscriptions: Vec<Planned>,
    pub(crate) settings: Settings,
    /// Whether flows are followed.
    pub(crate) flows: bool,
}

/// A subscription, compiled.
pub(crate) struct Planned {
    pub spec: SubscriptionSpec,
    pub scope: Scope,
    pub feed: Source,
    calls: Vec<(&'static FunctionSpec, FunctionCall)>,
}

/// Which of the run's packets a subscription covers.
pub(crate) enum Scope {
    All,
    Matching(Box<Filter>),
    /// Those that none of these subscriptions (by index) covers.
    Remainder(Vec<usize>),
}

/// Where its items come from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Source {
    Packets,
    Tallies,
    FlowEnds,
}

/// Why a plan cannot be made.
#[derive(Debug)]
pub enum PlanError {
    /// The expression of the whole run.
    Expression(FilterError),
    /// The expression of a subscription.
    Subscription {
        /// Its name.
        name: String,
        /// What is wrong with it.
        error: FilterError,
    },
    /// A function or its arguments.
    Function {
        /// The name of the subscription.
        name: String,
        /// What is wrong, and what would be accepted.
        error: String,
    },
}

impl std::fmt::Display for PlanError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PlanError::Expression(error) => write!(f, "{error}"),
            PlanError::Subscription { name, error } => write!(f, "subscription `{name}`: {error}"),
            PlanError::Function { name, error } => write!(f, "subscription `{name}`: {error}"),
        }
    }
}

impl std::error::Error for PlanError {}

impl Plan {
    /// Compiles subscriptions. `expression` is that of the whole run: packets that it does not match are only
    /// counted; empty for every packet.
    pub fn new(
        expression: &str,
        specs: Vec<SubscriptionSpec>,
        settings: Settings,
    ) -> Result<Plan, PlanError> {
        let scope = compile(expression, &settings).map_err(PlanError::Expression)?;
        let mut subscriptions = Vec::with_capacity(specs.len());
        for (index, spec) in specs.iter().enumerate() {
            subscriptions.push(Planned::new(spec, index, &specs, &settings)?);
        }
        Ok(Plan { scope, subscriptions, settings, flows: true })
    }

    /// Compiles subscriptions that need no flows: none are followed.
    pub fn counting(specs: Vec<SubscriptionSpec>, settings: Settings) -> Result<Plan, PlanError> {
        Plan::new("", specs, settings).map(|plan| Plan { flows: false, ..plan })
    }

    /// The expression of the whole run, compiled; `None` where it lets every packet through.
    pub fn scope(&self) -> Option<&Filter> {
        self.scope.as_ref()
    }

    /// Whether flows are followed, so that the packets of a flow must meet in one worker.
    pub fn follows_flows(&self) -> bool {
        self.flows
    }

    /// Whether anything looks at the layers of packets; if not, they need not be decoded.
    pub fn needs_layers(&self) -> bool {
        self.flows
            || self.scope.is_some()
            || self.settings.checksum != ChecksumMode::Off
            || self.subscriptions.iter().any(Planned::needs_layers)
    }

    /// The subscriptions, in order.
    pub fn specs(&self) -> impl Iterator<Item = &SubscriptionSpec> {
        self.subscriptions.iter().map(|planned| &planned.spec)
    }
}

fn compile(expression: &str, settings: &Settings) -> Result<Option<Filter>, FilterError> {
    if expression.trim().is_empty() {
        return Ok(None);
    }
    Filter::compile(expression, &settings.filter).map(Some)
}

impl Planned {
    fn new(
        spec: &SubscriptionSpec,
        index: usize,
        specs: &[SubscriptionSpec],
        settings: &Settings,
    ) -> Result<Self, PlanError> {
        let wrong = |error: String| PlanError::Function { name: spec.name.clone(), error };
        let mut calls = Vec::new();
        for call in &spec.functions {
            let function = FunctionSpec::find(&call.name).map_err(wrong)?;
            function.call(call, settings.seed).map_err(wrong)?;
            if !function.levels.contains(&spec.level) {
                return Err(wrong(format!("`{}` has no meaning at {:?} level", call.name, spec.level)));
            }
            calls.push((function, call.clone()));
        }
        if spec.level == Level::Flow && (spec.remainder || !spec.expression.trim().is_empty()) {
            // It would be passed over in silence: a flow is not a packet that an expression can look at.
            let text = "at flow level every flow is seen: the run's expression is the place to choose";
            return Err(wrong(text.to_owned()));
        }
        let scope = if spec.remainder {
            let lines = specs.iter().enumerate();
            Scope::Remainder(
                lines
                    .filter(|(at, s)| *at != index && s.chart == spec.chart && !s.remainder)
                    .map(|(at, _)| at)
                    .collect(),
            )
        } else {
            let filter = compile(&spec.expression, settings)
                .map_err(|error| PlanError::Subscription { name: spec.name.clone(), error })?;
            filter.map_or(Scope::All, |filter| Scope::Matching(Box::new(filter)))
        };
        let tallies = calls.iter().all(|(function, _)| function.feed == Feed::Tallies);
        let feed = match (spec.level, &scope) {
            (Level::Flow, _) => Source::FlowEnds,
            (Level::Packet, Scope::All) if tallies => Source::Tallies,
            (Level::Packet, _) => Source::Packets,
        };
        Ok(Self { spec: spec.clone(), scope, feed, calls })
    }

    /// The functions, for one worker.
    pub fn chain(&self, seed: u64) -> Vec<Box<dyn Function>> {
        // The arguments were checked when the plan was made: a call that fails now has failed then.
        self.calls.iter().filter_map(|(function, call)| function.call(call, seed).ok()).collect()
    }

    fn needs_layers(&self) -> bool {
        !matches!(self.scope, Scope::All)
            || self.calls.iter().any(|(function, _)| function.feed != Feed::Lengths)
    }

    /// The functions' names.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.calls.iter().map(|(function, _)| function.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_at_flow_level_is_refused() {
        let settings = Settings { filter: Options::default(), checksum: ChecksumMode::Off, seed: 1 };
        let mut spec = SubscriptionSpec::new("flows", "tcp", vec![FunctionCall::new("packets")]);
        assert!(Plan::new("", vec![spec.clone()], settings.clone()).is_ok());
        spec.level = Level::Flow;
        let error = Plan::new("", vec![spec.clone()], settings.clone()).err().unwrap();
        assert!(error.to_string().contains("flow level"), "{error}");
        spec.expression = String::new();
        assert!(Plan::new("", vec![spec], settings).is_ok());
    }
}
