//! Routing by task: which model answers in a routed one's place.
//!
//! [`Features`] is what a request looks like; [`decide`] asks the rules in order, and where none matches
//! says that the small model is to be asked: [`classify`] writes its request and reads its answer.
//! [`choose`] is the caller's own word, and [`escalate`] judges a whole answer. All of that is pure;
//! [`stage`] sends and waits.

pub mod choose;
pub mod classify;
pub mod decide;
pub mod escalate;
pub mod features;
pub(crate) mod stage;

pub use choose::{BadChoice, HEADER, choose};
pub use decide::{By, Decision, Route, decide, shown};
pub use features::{Asker, Features};
