//! `run --config`: what becomes of the file while the gateway runs.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use sluicegate_testkit::cluster::{Standalone, cli};
use tempfile::TempDir;
use tokio::time::sleep;

use crate::LIMIT;

/// Longer than the gateway takes to notice anything.
const NOTICED: Duration = Duration::from_secs(4);

/// A gateway that follows `etc/gateway.yaml`, which declares the tenant `first`.
struct World {
    gateway: Standalone,
    file: PathBuf,
    folder: TempDir,
}

impl World {
    async fn start() -> Self {
        let folder = TempDir::with_prefix("sluicegate-start-").unwrap();
        fs::create_dir(folder.path().join("etc")).unwrap();
        let file = folder.path().join("etc/gateway.yaml");
        fs::write(&file, declaring(&["first"])).unwrap();
        let gateway = Standalone::start(&file, &[], folder.path()).await.unwrap();
        Self { gateway, file, folder }
    }

    /// Names of the tenants, and how many changes there were.
    async fn state(&self) -> (Vec<String>, usize) {
        let tenants = self.quietly(&["get", "tenants", "-q"]).await;
        let names =
            tenants.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned);
        (names.collect(), self.quietly(&["history", "-q"]).await.lines().count())
    }

    async fn quietly(&self, arguments: &[&str]) -> String {
        let output = cli(self.gateway.admin(), arguments).await.unwrap();
        assert!(output.status.success(), "{}", output.said());
        output.stdout
    }

    async fn until_tenants(&self, expected: &[&str]) {
        let waited = tokio::time::timeout(LIMIT, async {
            while self.state().await.0 != expected {
                sleep(Duration::from_millis(50)).await;
            }
        });
        if waited.await.is_err() {
            panic!("{:?}\n{}", self.state().await, self.gateway.last_words());
        }
    }

    async fn until_told(&self, part: &str) {
        let told = |line: &str| line.contains(part).then_some(());
        self.gateway.stderr().find(LIMIT, part, told).await.unwrap();
    }

    /// Waits until a sentence was said so many times.
    async fn until_told_times(&self, text: &str, times: usize) {
        let told = async {
            while self.times_told(text) < times {
                sleep(Duration::from_millis(20)).await;
            }
        };
        let told = tokio::time::timeout(LIMIT, told).await;
        assert!(told.is_ok(), "waited in vain to be told {times} times: {text}");
    }

    fn times_told(&self, part: &str) -> usize {
        self.gateway.stderr().all().iter().filter(|line| line.contains(part)).count()
    }
}

fn declaring(tenants: &[&str]) -> String {
    let entries = tenants.iter().map(|name| format!("  - {{ name: {name} }}\n"));
    format!("tenants:\n{}", entries.collect::<String>())
}

#[tokio::test]
async fn d6_a_file_is_applied_once_and_whole_however_slowly_it_is_written() {
    let world = World::start().await;
    let (_, changes) = world.state().await;

    // In place: half of it is valid, and flushed.
    let mut file = File::create(&world.file).unwrap();
    file.write_all(declaring(&["first"]).as_bytes()).unwrap();
    file.sync_all().unwrap();
    sleep(Duration::from_secs(1)).await;
    file.write_all(b"  - { name: second }\n  - { na").unwrap();
    sleep(Duration::from_millis(500)).await;
    file.write_all(b"me: third }\n").unwrap();
    drop(file);
    world.until_tenants(&["first", "second", "third"]).await;

    // Removed and made anew, as slowly. Something else happens in the folder meanwhile.
    fs::remove_file(&world.file).unwrap();
    let mut file = File::create(&world.file).unwrap();
    file.write_all(declaring(&["second"]).as_bytes()).unwrap();
    fs::write(world.folder.path().join("etc/other"), "x").unwrap();
    sleep(NOTICED).await;
    file.write_all(b"  - { name: fourth }\n").unwrap();
    drop(file);
    world.until_tenants(&["fourth", "second"]).await;

    // Beside it and moved over it.
    let beside = world.file.with_extension("new");
    fs::write(&beside, declaring(&["fifth"])).unwrap();
    fs::rename(&beside, &world.file).unwrap();
    world.until_tenants(&["fifth"]).await;
    assert_eq!(world.state().await.1, changes + 3, "one change for each save");
    assert_eq!(world.times_told("was not applied"), 0, "{}", world.gateway.last_words());
}

#[tokio::test]
async fn d6_an_emptied_file_takes_nothing_away() {
    let world = World::start().await;
    for empty in ["", "# nothing\n", "tenants: []\n"] {
        let told = world.times_told("declares nothing");
        fs::write(&world.file, empty).unwrap();
        world.until_told_times("declares nothing", told + 1).await;
    }
    world.until_told("'sluicegate delete'").await;
    assert_eq!(world.state().await.0, ["first"]);
    fs::write(&world.file, declaring(&["second"])).unwrap();
    world.until_tenants(&["second"]).await;
}

#[tokio::test]
async fn d6_a_file_that_is_gone_is_told_once_and_watched_on() {
    let world = World::start().await;
    fs::remove_file(&world.file).unwrap();
    world.until_told("the configuration file is gone").await;
    fs::create_dir(&world.file).unwrap();
    world.until_told("a folder stands in place of the configuration file").await;
    sleep(NOTICED).await;
    assert_eq!(world.times_told("the last good configuration stays"), 2);
    assert_eq!(world.state().await.0, ["first"]);

    fs::remove_dir(&world.file).unwrap();
    fs::write(&world.file, declaring(&["second"])).unwrap();
    world.until_tenants(&["second"]).await;

    // A file that is put there by a link was closed before.
    let beside = world.file.with_extension("new");
    fs::write(&beside, declaring(&["third"])).unwrap();
    fs::remove_file(&world.file).unwrap();
    fs::hard_link(&beside, &world.file).unwrap();
    fs::remove_file(&beside).unwrap();
    world.until_tenants(&["third"]).await;
}

#[tokio::test]
async fn d6_a_folder_that_is_removed_and_made_anew_is_watched_on() {
    let world = World::start().await;
    let folder = world.file.parent().unwrap();
    for name in ["second", "third"] {
        let told = world.times_told("the configuration file is gone");
        fs::remove_dir_all(folder).unwrap();
        world.until_told_times("the configuration file is gone", told + 1).await;
        fs::create_dir(folder).unwrap();
        fs::write(&world.file, declaring(&[name])).unwrap();
        world.until_tenants(&[name]).await;
    }
    // Moved away and another put into its place, without a moment of absence that is noticed.
    fs::rename(folder, folder.with_extension("old")).unwrap();
    fs::create_dir(folder).unwrap();
    fs::write(&world.file, declaring(&["fourth"])).unwrap();
    world.until_tenants(&["fourth"]).await;
    fs::write(&world.file, declaring(&["fifth"])).unwrap();
    world.until_tenants(&["fifth"]).await;
}
