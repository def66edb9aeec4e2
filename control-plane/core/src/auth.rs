//! Who may call: one token for administrators, one for data planes.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use sluicegate_model::{
    resource::credential::is_secret_text,
    secret::{KeyHash, Secret, constant_time_eq, random_token},
};
use sluicegate_store::{Commit, Committed, ConfigStore, Op, Precondition};
use tokio::time::Instant;

use crate::{error::CoreError, keys};

/// Between two looks into the store for a token that another replica has replaced.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// What a caller is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Reads and changes everything.
    Admin,
    /// Follows the policy.
    Node,
}

impl Role {
    /// In messages, and in the store.
    pub fn name(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Node => "node",
        }
    }

    fn prefix(self) -> &'static str {
        match self {
            Self::Admin => "sg-admin-",
            Self::Node => "sg-node-",
        }
    }
}

/// Tokens that the process was given.
#[derive(Debug, Default)]
pub struct Tokens {
    pub admin: Option<Secret>,
    pub node: Option<Secret>,
    /// Replaces the admin token by a new one, unless one was given.
    pub reset_admin: bool,
}

/// Tokens that were made just now: the only time they can be shown.
#[derive(Debug, Default)]
pub struct Issued {
    pub admin: Option<Secret>,
    pub node: Option<Secret>,
}

/// Checks tokens. Only their hashes are kept.
#[derive(Debug)]
pub struct Auth {
    store: Arc<dyn ConfigStore>,
    known: Mutex<HashMap<Role, Known>>,
}

#[derive(Debug, Clone)]
struct Known {
    hash: KeyHash,
    /// Given to this process: the store has no say.
    given: bool,
    looked: Instant,
}

impl Auth {
    /// Takes over the given tokens, else those in the store, else makes new ones.
    ///
    /// # Errors
    /// [`CoreError::BadToken`] for a given token that no header can carry; those of the store.
    pub async fn start(
        store: Arc<dyn ConfigStore>,
        tokens: Tokens,
    ) -> Result<(Self, Issued), CoreError> {
        let auth = Self { store, known: Mutex::default() };
        let issued = Issued {
            admin: auth.establish(Role::Admin, tokens.admin, tokens.reset_admin).await?,
            node: auth.establish(Role::Node, tokens.node, false).await?,
        };
        Ok((auth, issued))
    }

    /// Is this the token of that role? A wrong one makes it look into the store, at most once a
    /// second: another replica may have made a new one.
    pub async fn verify(&self, role: Role, token: &str) -> bool {
        let hash = KeyHash::of(token);
        let Some(known) = self.known(role) else { return false };
        if same(&hash, &known.hash) {
            return true;
        }
        if known.given || known.looked.elapsed() < LOOK_AGAIN {
            return false;
        }
        self.remember(role, Known { looked: Instant::now(), ..known });
        match self.stored(role).await {
            Ok(Some((stored, _))) => {
                self.remember(role, Known { hash: stored, given: false, looked: Instant::now() });
                same(&hash, &stored)
            }
            Ok(None) | Err(_) => false,
        }
    }

    /// Returns a token that was made.
    async fn establish(
        &self,
        role: Role,
        given: Option<Secret>,
        reset: bool,
    ) -> Result<Option<Secret>, CoreError> {
        let looked = Instant::now();
        let stored = self.stored(role).await?;
        let current = stored.as_ref().map(|(hash, _)| *hash);
        if let Some(given) = given {
            if !is_secret_text(given.expose()) {
                return Err(CoreError::BadToken { role: role.name() });
            }
            let hash = KeyHash::of(given.expose());
            if current != Some(hash) {
                self.write(role, hash, None).await?;
            }
            self.remember(role, Known { hash, given: true, looked });
            return Ok(None);
        }
        if let Some(hash) = current
            && !reset
        {
            self.remember(role, Known { hash, given: false, looked });
            return Ok(None);
        }
        let token = random_token(role.prefix())
            .map_err(|error| CoreError::NoRandomness(error.to_string()))?;
        let hash = KeyHash::of(token.expose());
        let version = stored.map_or(0, |(_, version)| version);
        if self.write(role, hash, Some(version)).await? {
            self.remember(role, Known { hash, given: false, looked });
            return Ok(Some(token));
        }
        // Another replica was first; its token counts, and it has shown it.
        let (hash, _) = self.stored(role).await?.ok_or_else(|| CoreError::Corrupt {
            key: keys::token(role.name()),
            reason: "it vanished while it was read".to_owned(),
        })?;
        self.remember(role, Known { hash, given: false, looked });
        Ok(None)
    }

    /// Writes a hash; with `over` only over this version. False: it has another.
    async fn write(&self, role: Role, hash: KeyHash, over: Option<u64>) -> Result<bool, CoreError> {
        let key = keys::token(role.name());
        let preconditions = over
            .map(|mod_revision| Precondition { key: key.clone(), mod_revision })
            .into_iter()
            .collect();
        let ops = vec![Op::Put { key, value: hash.to_string().into(), ttl: None }];
        let committed = self.store.commit(Commit { preconditions, ops }).await?;
        Ok(matches!(committed, Committed::At(_)))
    }

    /// The hash in the store and its version.
    async fn stored(&self, role: Role) -> Result<Option<(KeyHash, u64)>, CoreError> {
        let key = keys::token(role.name());
        let Some(entry) = self.store.get(&key).await? else { return Ok(None) };
        let hash = std::str::from_utf8(&entry.value).ok().and_then(KeyHash::parse);
        let reason = "it is not the hash of a token".to_owned();
        let hash = hash.ok_or(CoreError::Corrupt { key, reason })?;
        Ok(Some((hash, entry.mod_revision)))
    }

    fn known(&self, role: Role) -> Option<Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&role).cloned()
    }

    fn remember(&self, role: Role, known: Known) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(role, known);
    }
}

fn same(one: &KeyHash, other: &KeyHash) -> bool {
    constant_time_eq(one.to_string().as_bytes(), other.to_string().as_bytes())
}
