//! A server's process, with the power to stop it where it stands.

use std::{
    io::ErrorKind,
    process::{Child, Command},
    sync::Mutex,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// Killed when dropped.
#[derive(Debug, Default)]
pub struct Process(Mutex<Option<Child>>);

impl Process {
    /// Starts it; `package` is what brings the program.
    pub fn start(&self, mut command: Command, package: &str) {
        let program = command.get_program().to_owned();
        let child = command.spawn().unwrap_or_else(|error| match error.kind() {
            ErrorKind::NotFound => {
                panic!("these tests need {program:?} on the PATH: apt-get install {package}")
            }
            _ => panic!("{program:?} does not start: {error}"),
        });
        *self.0.lock().unwrap() = Some(child);
    }

    pub fn has_ended(&self) -> bool {
        let mut child = self.0.lock().unwrap();
        child.as_mut().is_none_or(|child| child.try_wait().unwrap().is_some())
    }

    /// Stops the process where it stands; connections stay open and silent.
    pub fn freeze(&self) {
        self.signal(Signal::SIGSTOP);
    }

    pub fn thaw(&self) {
        self.signal(Signal::SIGCONT);
    }

    /// As a power failure does it.
    pub fn kill(&self) {
        if let Some(mut child) = self.0.lock().unwrap().take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    fn signal(&self, signal: Signal) {
        let child = self.0.lock().unwrap();
        let pid = i32::try_from(child.as_ref().expect("it runs").id()).unwrap();
        kill(Pid::from_raw(pid), signal).unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
