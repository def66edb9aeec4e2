//! What both planes say about themselves: clock, tasks, logs, the access record, metric names.

pub mod clock;
pub mod log;
pub mod metric;
pub mod record;
pub mod task;
