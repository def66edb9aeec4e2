//! Starts fake providers and prints where each listens, until the standard input ends:
//! `cargo run -p sluicegate-testkit --example fake -- openai gemini`. Without a name, all of them.

#![allow(clippy::print_stdout, reason = "what it prints is what it is for")]

use std::io::Read as _;

use anyhow::bail;
use sluicegate_testkit::providers::{Dialect, Fake};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let is_known = |name: &String| Dialect::ALL.iter().any(|dialect| dialect.name() == name);
    if let Some(name) = wanted.iter().find(|name| !is_known(name)) {
        bail!("there is no dialect {name}");
    }
    let mut fakes = Vec::new();
    for dialect in Dialect::ALL {
        if wanted.is_empty() || wanted.iter().any(|name| name == dialect.name()) {
            let fake = Fake::start(dialect).await?;
            println!("{} {} {}", dialect.name(), fake.base_url(), fake.key());
            fakes.push(fake);
        }
    }
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
    Ok(())
}
