//! Applies another configuration to a live run. It is compiled into a plan, which workers take at a tick.

use super::{Request, Run, compile};
use crate::cli;
use crate::memory;
use crate::online::LiveClock;
use crate::orders::Mailbox;
use crate::serve::Control;
use crate::serve::hub::Hub;
use std::sync::{Arc, Mutex, PoisonError};
use weir_api::SubscriptionSpec;
use weir_engine::Plan;

/// Changes the plan of a live run.
pub struct Change {
    options: Arc<cli::RunOptions>,
    request: Arc<Request>,
    /// The current plan: its compiled expressions are reused.
    plan: Mutex<Arc<Plan>>,
    mailbox: Arc<Mailbox>,
    clock: LiveClock,
    hub: Option<Arc<Hub>>,
    /// Maximum bytes of a plan.
    lists: usize,
}

impl Change {
    /// Changes for a run that starts with this plan.
    pub fn new(run: &Run, plan: Arc<Plan>, mailbox: Arc<Mailbox>, clock: LiveClock) -> Self {
        Self {
            options: Arc::clone(&run.options),
            request: Arc::clone(&run.request),
            plan: Mutex::new(plan),
            mailbox,
            clock,
            hub: run.beside.as_ref().map(|beside| Arc::clone(&beside.hub)),
            lists: run.division.lists,
        }
    }
}

impl Control for Change {
    fn prepare(
        &self,
        expression: &str,
        subscriptions: Vec<SubscriptionSpec>,
    ) -> Result<Box<dyn FnOnce() + '_>, String> {
        let before = Arc::clone(&self.plan.lock().unwrap_or_else(PoisonError::into_inner));
        let plan = compile(&self.options, &self.request, expression, &subscriptions, Some(&before));
        let plan = Arc::new(plan.map_err(|error| error.to_string())?);
        let taken = plan.memory(self.request.workers);
        if taken > self.lists {
            return Err(format!(
                "charts and lists take {} of memory, and this run has {} for them: use fewer lines or rows, or restart it \
                 with a larger --memory",
                memory::bytes(taken),
                memory::bytes(self.lists)
            ));
        }
        let expression = expression.to_owned();
        Ok(Box::new(move || {
            self.mailbox.change(self.clock.now(), |orders| orders.plan = Arc::clone(&plan));
            *self.plan.lock().unwrap_or_else(PoisonError::into_inner) = plan;
            if let Some(hub) = &self.hub {
                hub.set_expression(&expression);
            }
        }))
    }
}
