//! Accounts and users as `sacctmgr` tells them: `sacctmgr -nP show associations format=…`, and so on.
//!
//! No field of these formats can have the delimiter in it, so a line with another number of fields is rejected.

use std::collections::BTreeMap;

use record::site::Association;

use super::printed::{Report, meant, words};
use crate::sink::{At, Outcome, Problem, Reason};
use crate::word;

/// For `sacctmgr -nP show associations format=`.
pub const ASSOCIATIONS: &str = "Cluster,Account,User,ParentName,Partition,DefaultQOS,QOS";
/// For `sacctmgr -nP show user withcoord format=`.
pub const USERS: &str = "User,DefaultAccount,AdminLevel,Coordinators";
/// For `sacctmgr -nP show account withcoord format=`.
pub const ACCOUNTS: &str = "Account,Coordinators";

/// A user of the batch system.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub default_account: Option<String>,
    /// `Operator` or `Administrator`, of the whole batch system.
    pub admin_level: Option<String>,
    /// The accounts that the user coordinates.
    pub coordinates: Vec<String>,
}

/// Who coordinates an account, also by way of the account above it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Account {
    pub name: String,
    pub coordinators: Vec<String>,
}

/// Reads lines of [`ASSOCIATIONS`].
pub fn associations(text: &[u8], file: &str, report: Report<'_>) -> Vec<Association> {
    lines(text, file, report, |[cluster, account, user, parent, partition, default_qos, qos]| {
        Ok(Association {
            cluster: told(cluster, "Cluster")?,
            account: told(account, "Account")?,
            user: name(user),
            parent: name(parent),
            partition: name(partition),
            default_qos: name(default_qos),
            qos: words(qos),
            is_default: None,
            coordinators: None,
        })
    })
}

/// Reads lines of [`USERS`].
pub fn users(text: &[u8], file: &str, report: Report<'_>) -> Vec<User> {
    lines(text, file, report, |[user, default_account, level, accounts]| {
        Ok(User {
            name: told(user, "User")?,
            default_account: name(default_account),
            admin_level: meant(level).and_then(name),
            coordinates: words(accounts),
        })
    })
}

/// Reads lines of [`ACCOUNTS`].
pub fn accounts(text: &[u8], file: &str, report: Report<'_>) -> Vec<Account> {
    lines(text, file, report, |[account, coordinators]| {
        Ok(Account { name: told(account, "Account")?, coordinators: words(coordinators) })
    })
}

/// Adds to the associations what only the other two lists have.
pub fn join(associations: &mut [Association], users: &[User], accounts: &[Account]) {
    let defaults: BTreeMap<&str, &str> =
        users.iter().filter_map(|user| Some((&*user.name, user.default_account.as_deref()?))).collect();
    let coordinators: BTreeMap<&str, &[String]> =
        accounts.iter().map(|account| (&*account.name, &*account.coordinators)).collect();
    for association in associations {
        match &association.user {
            Some(user) => {
                let default = defaults.get(user.as_str());
                association.is_default = default.map(|account| *account == association.account);
            }
            None => {
                let found = coordinators.get(association.account.as_str());
                association.coordinators = found.map(|names| names.to_vec());
            }
        }
    }
}

/// Makes something of each line that has as many fields as it should.
fn lines<'a, T, const N: usize>(
    text: &'a [u8],
    file: &str,
    report: Report<'_>,
    make: impl Fn([&'a [u8]; N]) -> Result<T, Reason>,
) -> Vec<T> {
    let mut made = Vec::new();
    for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let fields: Vec<&[u8]> = line.split(|byte| *byte == b'|').collect();
        let count = Reason::FieldCount { found: fields.len(), expected: N };
        match <[&[u8]; N]>::try_from(fields).map_err(|_| count).and_then(&make) {
            Ok(one) => made.push(one),
            Err(reason) => {
                let (at, outcome) = (At::Line(number), Outcome::Rejected);
                report(Problem { file, at, text: line, outcome, reason });
            }
        }
    }
    made
}

fn name(text: &[u8]) -> Option<String> {
    word::word(text)
}

fn told(text: &[u8], field: &'static str) -> Result<String, Reason> {
    name(text).ok_or(Reason::Empty { field })
}
