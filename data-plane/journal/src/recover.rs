//! What earlier starts have left: found, ended, handed over.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use sluicegate_proto::usage::v1::Basis;

use crate::{
    bounds::Options,
    clock::Moment,
    error::JournalError,
    frame::FrameBuf,
    record::{LeaseTotals, Record, Started, decode_started},
    segment::{self, Scanned, parse_name, scan},
    source::Source,
};

const LOCK: &str = "journal.lock";
/// How the event of an attempt says that its process died.
const INTERRUPTED: &str = "interrupted";

/// What an attempt costs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Priced {
    /// Millionths of a unit.
    pub micro_units: u64,
    /// Nano-dollars.
    pub cost_nano: u64,
    /// What is to be charged to which lease, in its smallest unit.
    pub lease_charges: Vec<(u64, u64)>,
}

/// What was found at the start.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Recovered {
    /// Leases that dead processes have not closed, with everything that was charged to them. To be
    /// reported to the ledger and closed there, then [`crate::Journal::close_dead_lease`]. Named
    /// again at every start until then.
    pub leases: Vec<DeadLease>,
    /// Attempts that were ended now. Their events wait to be sent, and their charges are in the
    /// leases.
    pub interrupted: Vec<Interrupted>,
    /// Events that damage of the files has lost.
    pub lost: u64,
}

/// A lease of a process that is dead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLease {
    /// Who held it.
    pub source: u64,
    pub totals: LeaseTotals,
}

/// An attempt that was running when its process died.
#[derive(Debug, Clone, PartialEq)]
pub struct Interrupted {
    pub source: u64,
    pub started: Started,
    pub output_tokens: u64,
    /// Charges that belong to no lease that is known: they are in no total.
    pub uncharged: Vec<(u64, u64)>,
}

/// Makes the folder and locks it against other processes, for as long as the file is open.
pub(crate) fn take_folder(folder: &Path) -> Result<File, JournalError> {
    let failed = |error| JournalError::Folder { folder: folder.to_owned(), error };
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
    if fs::metadata(folder).map_err(failed)?.permissions().mode() & 0o077 != 0 {
        fs::set_permissions(folder, Permissions::from_mode(0o700)).map_err(failed)?;
    }
    let lock = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(folder.join(LOCK))
        .map_err(failed)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(JournalError::InUse(folder.to_owned())),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

/// The dead sources with what is left of them, and what their caller has to know.
pub(crate) fn recover(
    options: &Options,
    now: Moment,
    mut price: impl FnMut(&Started, u64) -> Priced,
) -> Result<(BTreeMap<u64, Source>, Recovered), JournalError> {
    let failed = |error| JournalError::Folder { folder: options.folder.clone(), error };
    let mut recovered = Recovered::default();
    let mut dead = BTreeMap::new();
    for (incarnation, files) in list(&options.folder).map_err(failed)? {
        if incarnation == options.incarnation {
            return Err(JournalError::NotNew { folder: options.folder.clone(), incarnation });
        }
        let Some(mut source) =
            load(options, incarnation, &files, &mut recovered.lost).map_err(failed)?
        else {
            continue;
        };
        match interrupt(&mut source, now, &mut price, &mut recovered.interrupted) {
            Ok(()) => {
                let leases = source.book.leases.values().cloned();
                recovered
                    .leases
                    .extend(leases.map(|totals| DeadLease { source: incarnation, totals }));
            }
            // Nothing is lost: the next start ends the rest, and names the leases.
            Err(error) => tracing::error!(
                %error, source = format!("{incarnation:016x}"), left = source.book.open.len(),
                "attempts of a dead process cannot be ended in the usage journal"
            ),
        }
        let synced = source
            .take_unsynced()
            .map_or(Ok(()), |what| what.files.iter().try_for_each(|file| file.sync_data()));
        synced.map_err(failed)?;
        source.found_all(now);
        dead.insert(incarnation, source);
    }
    File::open(&options.folder).and_then(|folder| folder.sync_all()).map_err(failed)?;
    Ok((dead, recovered))
}

/// The segments in the folder by source, in order.
fn list(folder: &Path) -> io::Result<BTreeMap<u64, BTreeMap<u32, PathBuf>>> {
    let mut found: BTreeMap<u64, BTreeMap<u32, PathBuf>> = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if let Some((incarnation, index)) = entry.file_name().to_str().and_then(parse_name) {
            found.entry(incarnation).or_default().insert(index, entry.path());
        }
    }
    Ok(found)
}

/// Reads a dead source. `None`: there is nothing of it, or it is not for this version.
fn load(
    options: &Options,
    incarnation: u64,
    files: &BTreeMap<u32, PathBuf>,
    lost: &mut u64,
) -> io::Result<Option<Source>> {
    let mut source =
        Source::new(&options.folder, incarnation, options.node_id.clone(), options.segment_bytes);
    for (&index, path) in files {
        let expected = source.book.next_seq;
        let is_first = source.segments.is_empty();
        match scan(path, index, |stored| source.replay(stored))? {
            Scanned::Segment { segment, node_id, cut } => {
                let file = OpenOptions::new().write(true).open(path)?;
                if cut > 0 {
                    tracing::warn!(
                        file = %path.display(), cut, kept = segment.bytes,
                        "a part of the usage journal was not written to its end; the rest is kept"
                    );
                    file.set_len(segment.bytes)?;
                }
                // It survived the process, but perhaps only in the page cache.
                file.sync_data()?;
                if !is_first && segment.first_seq > expected {
                    let gap = segment.first_seq - expected;
                    *lost += gap;
                    tracing::error!(
                        file = %path.display(), lost = gap,
                        "events before this part of the usage journal are lost to damage"
                    );
                }
                source.node_id = node_id;
                source.found(segment);
            }
            Scanned::Unborn => segment::remove(path),
            Scanned::Damaged => set_aside(path)?,
            Scanned::Newer(format) => {
                tracing::error!(
                    file = %path.display(), format,
                    "the usage journal has parts of a newer sluicegate, which are left alone; \
                     run that version to have them counted"
                );
                return Ok(None);
            }
        }
    }
    Ok((!source.segments.is_empty()).then_some(source))
}

/// Moves a file that cannot be read out of the way.
fn set_aside(path: &Path) -> io::Result<()> {
    let aside = path.with_extension("damaged");
    fs::rename(path, &aside)?;
    tracing::error!(
        file = %aside.display(),
        "a part of the usage journal is damaged and was set aside; what it held is not counted"
    );
    Ok(())
}

/// Ends the open attempts of a dead source, oldest first, each with its charges in one frame.
fn interrupt(
    source: &mut Source,
    now: Moment,
    price: &mut impl FnMut(&Started, u64) -> Priced,
    interrupted: &mut Vec<Interrupted>,
) -> io::Result<()> {
    let mut open: Vec<_> = source.book.open.keys().copied().collect();
    open.sort_unstable();
    for key in open {
        let Some(found) = source.book.open.get(&key) else { continue };
        let progress = found.progress;
        let Some((started_at, started)) = decode_started(&found.started) else {
            tracing::error!(request = key.0, attempt = key.1, "a started attempt is malformed");
            let dropped = Record::Dropped { request: key.0, attempt: key.1 };
            source.append(&mut FrameBuf::of(now, &[dropped]), now)?;
            continue;
        };
        let last_seen = progress.map_or(started_at, |progress| progress.at);
        let output_tokens = progress.map_or(0, |progress| progress.output_tokens);
        let priced = price(&started, output_tokens);
        let mut event = started.event.clone();
        event.attempt = key.1;
        event.age_ms = now.since(last_seen);
        event.output_tokens = output_tokens;
        event.micro_units = priced.micro_units;
        event.cost_nano = priced.cost_nano;
        event.set_basis(Basis::Estimated);
        event.outcome = INTERRUPTED.to_owned();
        event.duration_ms = last_seen.since(started_at);

        let (charged, uncharged) = charge(source, &priced.lease_charges);
        let mut records = vec![Record::Event { request: started.request, event: &event }];
        records.extend(charged.values().map(Record::LeaseTotals));
        source.append(&mut FrameBuf::of(now, &records), now)?;
        if !uncharged.is_empty() {
            tracing::warn!(
                request = started.event.request_id,
                ?uncharged,
                "an interrupted attempt's charges belong to leases that the journal does not know"
            );
        }
        let source = source.incarnation;
        interrupted.push(Interrupted { source, started, output_tokens, uncharged });
    }
    Ok(())
}

/// The totals of the leases with these charges added, and the charges of leases that are not known.
fn charge(
    source: &Source,
    charges: &[(u64, u64)],
) -> (BTreeMap<u64, LeaseTotals>, Vec<(u64, u64)>) {
    let (mut totals, mut uncharged) = (BTreeMap::<u64, LeaseTotals>::new(), Vec::new());
    for &(lease, amount) in charges {
        let total = match totals.entry(lease) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => match source.book.leases.get(&lease) {
                Some(known) => entry.insert(known.clone()),
                None => {
                    uncharged.push((lease, amount));
                    continue;
                }
            },
        };
        total.charged = total.charged.saturating_add(amount);
    }
    (totals, uncharged)
}
