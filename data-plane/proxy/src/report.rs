//! The access record of one request: filled stage by stage, written once, whatever happens.

use std::{borrow::Cow, sync::Arc, time::Duration};

use sluicegate_journal::clock::boottime_ms;
use sluicegate_model::{Outcome, Usage};
use sluicegate_telemetry::{
    clock,
    record::{AccessRecord, FallbackRecord, RecordSink, TargetRecord, UsageRecord},
};
use tokio::time::Instant;

use crate::{
    admit::Permit,
    degraded::Notice,
    hold::Waits,
    levels::TimedOut,
    metrics::Metrics,
    policy::{Caller, Model},
    quota::{Reservation, Standings},
    route::Choice,
    settle::{self, Bill, Charged},
    trace::Trace,
};

/// What became of a request whose caller left: so it stands until something else did.
const LEFT: (&str, u16) = ("client_cancelled", 499);

/// Where records and counts go.
#[derive(Debug, Clone)]
pub struct Reporter {
    /// `None`: records are switched off; counts are not.
    pub sink: Option<RecordSink>,
    pub metrics: Arc<Metrics>,
    /// Requests with tools that timed out.
    pub timed_out: Arc<TimedOut>,
}

/// A request's record while it lives. Dropped unfinished, it says that the caller left.
#[derive(Debug)]
pub struct Report {
    pub record: Box<AccessRecord>,
    /// What is reserved for the request, until it is settled. A report that is dropped settles it.
    pub bill: Option<Bill>,
    /// The tightest limits of the request.
    pub standings: Standings,
    /// The caller wants usage filled in where the upstream reports none.
    pub fills_usage: bool,
    /// Members of the request that the target had no place for.
    pub dropped: Vec<Cow<'static, str>>,
    /// What was taken away from the request.
    notice: Option<Notice>,
    /// Whose request it is, and for which model, if it offers tools.
    offers_tools: Option<(Arc<Model>, Arc<Caller>)>,
    arrived: Instant,
    /// When the caller stops waiting, if it says so.
    deadline: Option<Instant>,
    /// How long the next attempt was put off.
    waited: Duration,
    /// Told when it begins to wait, where its stream may be held open.
    pub(crate) waits: Waits,
    reporter: Reporter,
    posted: bool,
}

impl Report {
    /// Begins the record of a request that has just arrived.
    pub fn begin(reporter: &Reporter, trace: &Trace, client: Option<std::net::IpAddr>) -> Self {
        reporter.metrics.in_flight.inc();
        let record = Box::new(AccessRecord {
            record: "access",
            time: clock::rfc3339(),
            request_id: trace.request_id().to_owned(),
            trace_id: Some(trace.trace_id.clone()),
            client: client.map(|address| address.to_string()),
            endpoint: "other",
            outcome: LEFT.0,
            status: LEFT.1,
            ..AccessRecord::default()
        });
        Self {
            record,
            bill: None,
            standings: Standings::default(),
            fills_usage: false,
            dropped: Vec::new(),
            notice: None,
            offers_tools: None,
            arrived: Instant::now(),
            deadline: None,
            waited: Duration::ZERO,
            waits: Waits::default(),
            reporter: reporter.clone(),
            posted: false,
        }
    }

    /// The record of a question of our own that has to do with this request.
    pub fn aside(&self, trace: &Trace, id: String, endpoint: &'static str) -> Self {
        let mut own = Self::begin(&self.reporter, trace, None);
        own.record.request_id = id;
        own.record.endpoint = endpoint;
        own.record.policy_version = self.record.policy_version;
        own.record.key.clone_from(&self.record.key);
        own.record.tenant.clone_from(&self.record.tenant);
        own.record.user.clone_from(&self.record.user);
        own.record.app.clone_from(&self.record.app);
        own
    }

    /// What came is not used: if the caller leaves now, it has got nothing.
    pub fn unanswered(&mut self) {
        self.record.outcome = LEFT.0;
        self.record.status = LEFT.1;
    }

    /// The caller waits no longer than this from the arrival on.
    pub fn must_end_within(&mut self, limit: Duration) {
        self.deadline = self.arrived.checked_add(limit);
    }

    /// When the caller stops waiting, if it says so.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// When a request must have ended that may take so long, and no longer than its caller waits.
    pub fn ends_by(&self, total: Duration) -> Instant {
        let own = self.arrived + total;
        self.deadline.map_or(own, |deadline| own.min(deadline))
    }

    /// Does the caller wait long enough for this, and something after it?
    pub fn has_time_for(&self, wait: Duration) -> bool {
        self.deadline.is_none_or(|deadline| Instant::now() + wait < deadline)
    }

    /// Has the caller stopped waiting?
    pub fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// The next attempt was put off.
    pub fn waited(&mut self, wait: Duration) {
        self.waited += wait;
    }

    /// How long the attempt was put off that begins now. Milliseconds.
    pub fn take_waited(&mut self) -> u64 {
        u64::try_from(std::mem::take(&mut self.waited).as_millis()).unwrap_or(u64::MAX)
    }

    /// The counters, for stages that count.
    pub fn metrics(&self) -> &Metrics {
        &self.reporter.metrics
    }

    /// The counters, for whoever outlives a borrow of this report.
    pub fn shared_metrics(&self) -> Arc<Metrics> {
        self.reporter.metrics.clone()
    }

    /// Milliseconds since arrival, to the microsecond.
    pub fn elapsed_ms(&self) -> f64 {
        let micros = u32::try_from(self.arrived.elapsed().as_micros()).unwrap_or(u32::MAX);
        f64::from(micros) / 1000.0
    }

    /// The first attempt starts.
    pub fn queued(&mut self) {
        self.record.latency_ms.queue = self.elapsed_ms();
    }

    /// The first meaningful part of the answer is there.
    pub fn first_event(&mut self) {
        let elapsed = self.elapsed_ms();
        if self.record.latency_ms.first_event.is_none() {
            self.record.latency_ms.first_event = Some(elapsed);
            self.reporter.metrics.first_event.observe(elapsed / 1000.0);
        }
    }

    /// An attempt is about to be sent; `own` is what it has taken for itself.
    pub fn sent(&mut self, choice: &Choice, own: &Reservation) {
        let attempt = u32::try_from(self.record.attempts.len()).unwrap_or(u32::MAX);
        if let Some(bill) = &mut self.bill {
            let names = settle::RecordNames {
                request_id: &self.record.request_id,
                tenant: self.record.tenant.as_deref(),
                key: self.record.key.as_deref(),
                user: self.record.user.as_deref(),
                app: self.record.app.as_deref(),
            };
            bill.sent(&names, choice, attempt, own);
        }
    }

    /// The target that answers.
    pub fn served_by(&mut self, choice: &Choice) {
        self.record.target = Some(target_record(choice));
        self.record.fallback = choice
            .why
            .map(|why| FallbackRecord { model: choice.serves.name.clone(), reason: why.name() });
    }

    /// Tokens of the answer.
    pub fn usage(&mut self, usage: Usage, estimated: bool, charged: Charged) {
        self.record.usage = Some(UsageRecord {
            input_tokens: usage.input,
            output_tokens: usage.output,
            cached_tokens: usage.cached,
            reasoning_tokens: usage.reasoning,
            estimated,
            micro_units: charged.micro_units,
            cost_nano: charged.cost_nano,
        });
    }

    /// What was taken away from the request as it goes on now.
    pub fn degraded(&mut self, notice: Option<Notice>) {
        if notice == self.notice {
            return;
        }
        let told = notice.as_ref();
        self.record.degraded_level = told.map(|notice| notice.level.number());
        self.record.degraded_by = told.map(|notice| notice.by.clone()).unwrap_or_default();
        self.record.stripped_tools = told.map(|notice| notice.removed.clone()).unwrap_or_default();
        self.notice = notice;
    }

    /// What was taken away from the request, if anything was.
    pub fn notice(&self) -> Option<&Notice> {
        self.notice.as_ref()
    }

    /// Whether the request as it goes on offers tools: should it time out, that is a tool call that did.
    pub fn offers_tools(&mut self, permit: Option<&Permit>) {
        self.offers_tools = permit.map(|permit| (permit.model.clone(), permit.caller.clone()));
    }

    /// The one place that says what a timeout of a tool call is: a request that offered tools ended by
    /// one of the upstream's, whether nothing came, no more, or no end. That its caller did not wait
    /// longer says nothing of the upstream.
    fn count_tool_timeout(&mut self) {
        let Some((model, caller)) = self.offers_tools.take() else { return };
        if self.record.outcome == Outcome::Timeout.name() && !self.is_late() {
            self.reporter.timed_out.add(&model.name, &caller.tenants, boottime_ms());
        }
    }

    /// The response was handed over as the record says.
    pub fn finish(mut self) {
        self.post();
    }

    fn post(&mut self) {
        if std::mem::replace(&mut self.posted, true) {
            return;
        }
        settle::settle_abandoned(self);
        self.count_tool_timeout();
        self.record.latency_ms.total = self.elapsed_ms();
        let metrics = &self.reporter.metrics;
        metrics.in_flight.dec();
        metrics.finished(&self.record);
        if let Some(sink) = &self.reporter.sink
            && !sink.put(std::mem::take(&mut *self.record))
        {
            metrics.records_dropped.inc();
        }
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        self.post();
    }
}

/// How records name a choice.
pub fn target_record(choice: &Choice) -> TargetRecord {
    TargetRecord {
        provider: choice.provider.name.clone(),
        model: choice.model.clone(),
        credential: choice.credential.as_ref().map(|credential| credential.name.clone()),
    }
}
