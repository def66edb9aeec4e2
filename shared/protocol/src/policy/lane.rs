//! Classes of resources, each with a cursor of its own, so that what is wrong with one, or large,
//! holds up no other.

use sluicegate_proto::policy::v1 as pb;

/// A class of resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// Which keys of callers hold.
    Keys,
    /// Everything that is configured, those keys among it.
    Config,
}

impl Lane {
    /// In the order in which they are sent.
    pub const ALL: [Self; 2] = [Self::Keys, Self::Config];

    /// `None`: it is of a newer build.
    pub fn from_proto(wire: i32) -> Option<Self> {
        match pb::Lane::try_from(wire).ok()? {
            pb::Lane::Keys => Some(Self::Keys),
            pb::Lane::Config => Some(Self::Config),
            pb::Lane::Unspecified => None,
        }
    }

    pub fn to_proto(self) -> pb::Lane {
        match self {
            Self::Keys => pb::Lane::Keys,
            Self::Config => pb::Lane::Config,
        }
    }

    /// In messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Keys => "keys",
            Self::Config => "config",
        }
    }
}

/// One of something for each lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lanes<T> {
    pub keys: T,
    pub config: T,
}

impl<T> Lanes<T> {
    /// What `make` makes of each.
    pub fn of(mut make: impl FnMut(Lane) -> T) -> Self {
        Self { keys: make(Lane::Keys), config: make(Lane::Config) }
    }

    pub fn get(&self, lane: Lane) -> &T {
        match lane {
            Lane::Keys => &self.keys,
            Lane::Config => &self.config,
        }
    }

    pub fn get_mut(&mut self, lane: Lane) -> &mut T {
        match lane {
            Lane::Keys => &mut self.keys,
            Lane::Config => &mut self.config,
        }
    }

    /// In the order in which they are sent.
    pub fn iter(&self) -> impl Iterator<Item = (Lane, &T)> {
        Lane::ALL.into_iter().map(|lane| (lane, self.get(lane)))
    }

    /// The same for something else.
    pub fn map<U>(self, mut map: impl FnMut(T) -> U) -> Lanes<U> {
        Lanes { keys: map(self.keys), config: map(self.config) }
    }
}
