//! A client that asks a Redis single commands.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use crate::deadline::within;

/// How long one command may take.
const LIMIT: Duration = Duration::from_secs(20);

/// A connection. Commands follow one another.
#[derive(Debug)]
pub struct RedisClient(BufReader<TcpStream>);

/// What a command gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Nil,
    Integer(i64),
    /// A simple or a bulk string.
    Text(String),
    Array(Vec<Value>),
}

impl Value {
    /// The text; an error for anything else.
    pub fn text(&self) -> anyhow::Result<&str> {
        match self {
            Self::Text(text) => Ok(text),
            Self::Nil | Self::Integer(_) | Self::Array(_) => bail!("{self:?} is no text"),
        }
    }

    /// The number; an error for anything else.
    pub fn integer(&self) -> anyhow::Result<i64> {
        match self {
            Self::Integer(number) => Ok(*number),
            Self::Nil | Self::Text(_) | Self::Array(_) => bail!("{self:?} is no number"),
        }
    }

    /// The elements; an error for anything else.
    pub fn array(&self) -> anyhow::Result<&[Value]> {
        match self {
            Self::Array(values) => Ok(values),
            Self::Nil | Self::Text(_) | Self::Integer(_) => bail!("{self:?} is no array"),
        }
    }
}

impl RedisClient {
    /// Connects.
    pub async fn connect(server: SocketAddr) -> anyhow::Result<Self> {
        let stream = within(LIMIT, "a connection to Redis", TcpStream::connect(server)).await??;
        stream.set_nodelay(true)?;
        Ok(Self(BufReader::new(stream)))
    }

    /// Sends a command and waits for what it gives. Redis' own errors are errors here.
    pub async fn command(&mut self, words: &[&str]) -> anyhow::Result<Value> {
        let mut bytes = format!("*{}\r\n", words.len());
        for word in words {
            bytes += &format!("${}\r\n{word}\r\n", word.len());
        }
        let exchange = async {
            self.0.write_all(bytes.as_bytes()).await?;
            self.value().await
        };
        let said = within(LIMIT, &format!("Redis' answer to {words:?}"), exchange).await?;
        said.with_context(|| format!("{words:?}"))
    }

    /// Every key that is there. Keys that come or go meanwhile may be missed.
    pub async fn keys(&mut self) -> anyhow::Result<Vec<String>> {
        let (mut keys, mut cursor) = (Vec::new(), "0".to_owned());
        loop {
            let reply = self.command(&["SCAN", &cursor, "COUNT", "1000"]).await?;
            let [next, found] = reply.array()? else { bail!("SCAN gave {reply:?}") };
            for key in found.array()? {
                keys.push(key.text()?.to_owned());
            }
            next.text()?.clone_into(&mut cursor);
            if cursor == "0" {
                keys.sort_unstable();
                keys.dedup();
                return Ok(keys);
            }
        }
    }

    async fn value(&mut self) -> anyhow::Result<Value> {
        let line = self.line().await?;
        let (kind, rest) = line.split_at_checked(1).context("an empty line")?;
        match kind {
            "+" => Ok(Value::Text(rest.to_owned())),
            "-" => bail!("Redis says {rest}"),
            ":" => Ok(Value::Integer(rest.parse()?)),
            "$" => match rest.parse::<i64>()?.try_into() {
                Err(_) => Ok(Value::Nil),
                Ok(length) => {
                    let mut bytes = vec![0; length];
                    self.0.read_exact(&mut bytes).await?;
                    self.line().await?;
                    Ok(Value::Text(String::from_utf8_lossy(&bytes).into_owned()))
                }
            },
            "*" => {
                let length: i64 = rest.parse()?;
                if length < 0 {
                    return Ok(Value::Nil);
                }
                let mut values = Vec::new();
                for _ in 0..length {
                    values.push(Box::pin(self.value()).await?);
                }
                Ok(Value::Array(values))
            }
            _ => bail!("Redis sent {line:?}"),
        }
    }

    async fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        if self.0.read_line(&mut line).await? == 0 {
            bail!("Redis closed the connection");
        }
        Ok(line.trim_end_matches("\r\n").to_owned())
    }
}
