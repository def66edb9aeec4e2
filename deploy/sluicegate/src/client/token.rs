//! Finding the admin token. It never stands on a command line.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

use sluicegate_model::secret::Secret;

use crate::failure::Failure;

/// Holds the token itself.
const TOKEN_VARIABLE: &str = "SLUICEGATE_ADMIN_TOKEN";
/// Names the state directory of `sluicegate run`.
const STATE_VARIABLE: &str = "SLUICEGATE_STATE_DIR";

/// A token and where it came from.
#[derive(Debug)]
pub(crate) struct Token {
    pub(crate) secret: Secret,
    /// For messages.
    pub(crate) from: String,
}

/// The first of: the environment, `file`, the file that `sluicegate run` leaves.
///
/// # Errors
/// When there is none; the message names all three places.
pub(super) fn find(file: Option<&Path>) -> Result<Token, Failure> {
    let value = env::var(TOKEN_VARIABLE).unwrap_or_default();
    let folder = env::var_os(STATE_VARIABLE)
        .filter(|folder| !folder.is_empty())
        .map_or_else(|| PathBuf::from(".sluicegate"), PathBuf::from);
    choose(&value, file, &folder.join("admin.token"))
}

fn choose(value: &str, file: Option<&Path>, left: &Path) -> Result<Token, Failure> {
    if !value.trim().is_empty() {
        return Ok(Token { secret: Secret::new(value.trim()), from: TOKEN_VARIABLE.to_owned() });
    }
    if let Some(file) = file {
        return read(file)
            .map_err(|error| Failure::usage(format!("--token-file {}: {error}", file.display())));
    }
    match read(left) {
        Ok(token) => Ok(token),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(Failure::unreachable(format!(
                "no admin token: set {TOKEN_VARIABLE}, give --token-file FILE, or run this where \
             'sluicegate run' left one (looked for {}; {STATE_VARIABLE} names another folder)",
                left.display()
            )))
        }
        Err(error) => Err(Failure::unreachable(format!(
            "cannot read the admin token in {}: {error}; set {TOKEN_VARIABLE} or give --token-file",
            left.display()
        ))),
    }
}

fn read(file: &Path) -> io::Result<Token> {
    let text = fs::read_to_string(file)?;
    let token = text.trim();
    if token.is_empty() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the file is empty"));
    }
    Ok(Token { secret: Secret::new(token), from: file.display().to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Exit;

    #[test]
    fn the_first_place_wins() {
        let folder = tempfile::tempdir().unwrap();
        let (given, left) = (folder.path().join("given"), folder.path().join("admin.token"));
        fs::write(&given, "from-file\n").unwrap();
        fs::write(&left, "from-run\n").unwrap();
        check(choose(" from-env ", Some(&given), &left), "from-env");
        check(choose("", Some(&given), &left), "from-file");
        check(choose("", None, &left), "from-run");

        #[track_caller]
        fn check(token: Result<Token, Failure>, expected: &str) {
            assert_eq!(token.unwrap().secret.expose(), expected);
        }
    }

    #[test]
    fn without_a_token_all_three_places_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let left = folder.path().join("admin.token");
        let failure = choose("", None, &left).unwrap_err();
        assert_eq!(failure.exit, Exit::Unreachable);
        for place in ["SLUICEGATE_ADMIN_TOKEN", "--token-file", "admin.token"] {
            assert!(failure.message.contains(place), "{failure}");
        }
        fs::write(&left, " \n").unwrap();
        assert!(choose("", None, &left).unwrap_err().message.contains("the file is empty"));
        let missing = folder.path().join("missing");
        assert_eq!(choose("", Some(&missing), &left).unwrap_err().exit, Exit::Usage);
    }
}
