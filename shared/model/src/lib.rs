//! What both planes mean by their words: resources that are right by construction, their file
//! form, secrets, outcomes and usage. No I/O and no async.

pub mod address;
pub mod calendar;
pub mod document;
pub mod expression;
pub mod name;
pub mod outcome;
pub mod path;
pub mod profile;
pub mod rates;
pub mod resource;
pub mod rule;
pub mod schema;
pub mod scope;
pub mod seal;
pub mod secret;
pub mod set;
pub mod usage;
pub mod violation;

pub use name::{Kind, ResourceRef};
pub use outcome::Outcome;
pub use profile::{Profile, StreamEnd};
pub use rates::TokenRates;
pub use resource::Resource;
pub use set::ResourceSet;
pub use usage::Usage;
pub use violation::{Violation, Violations};
