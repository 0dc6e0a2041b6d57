//! Who has a say in what: roles, and the projects of a user, as the batch system told and as the site says over it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};

use digest::{SeeProject, Site};
use duckdb::Connection;

use crate::StoreError;
use crate::sight::Sight;

/// What somebody may do, from the least to the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Sees their own jobs.
    User,
    /// Sees those of a project as well.
    Manager,
    /// Sees all jobs.
    Support,
    Administrator,
}

impl Role {
    pub fn name(self) -> &'static str {
        match self {
            Role::User => "user",
            Role::Manager => "manager",
            Role::Support => "support",
            Role::Administrator => "administrator",
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Project {
    members: BTreeSet<String>,
    managers: BTreeSet<String>,
}

/// Everybody who is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct People {
    site: digest::People,
    projects: BTreeMap<String, Project>,
}

impl People {
    pub fn role(&self, user: &str) -> Role {
        if self.site.administrators.contains(user) {
            Role::Administrator
        } else if self.site.support.contains(user) {
            Role::Support
        } else if self.projects.values().any(|project| project.managers.contains(user)) {
            Role::Manager
        } else {
            Role::User
        }
    }

    pub fn manages(&self, user: &str, project: &str) -> bool {
        self.projects.get(project).is_some_and(|project| project.managers.contains(user))
    }

    pub fn is_member(&self, user: &str, project: &str) -> bool {
        self.projects
            .get(project)
            .is_some_and(|project| project.members.contains(user) || project.managers.contains(user))
    }

    /// Those who are in a project, or have a say in it.
    pub fn members(&self, project: &str) -> BTreeSet<String> {
        let project = self.projects.get(project);
        project.map_or_else(BTreeSet::new, |of| of.members.union(&of.managers).cloned().collect())
    }

    /// What somebody may see.
    pub fn sight(&self, user: &str) -> Sight {
        match self.role(user) {
            Role::Administrator => Sight::Administrator { user: user.to_owned() },
            Role::Support => Sight::Support { user: user.to_owned(), member_of: self.projects_of(user) },
            Role::User | Role::Manager => {
                let is_seen = |project: &&String| match self.site.see_project {
                    SeeProject::Managers => self.manages(user, project),
                    SeeProject::Members => self.is_member(user, project),
                };
                let projects = self.projects.keys().filter(is_seen).cloned().collect();
                Sight::Own { user: user.to_owned(), projects, member_of: self.projects_of(user) }
            }
        }
    }

    /// Those that somebody is in, or has a say in.
    fn projects_of(&self, user: &str) -> Vec<String> {
        self.projects.keys().filter(|project| self.is_member(user, project)).cloned().collect()
    }

    /// As the tables have them, with what the site says over it.
    pub(crate) fn load(connection: &Connection, site: &Site) -> Result<People, StoreError> {
        let mut projects: BTreeMap<String, Project> = BTreeMap::new();
        let mut query = connection.prepare("SELECT account, \"user\", coordinators FROM site_association")?;
        let mut rows = query.query([])?;
        while let Some(row) = rows.next()? {
            let (account, user): (String, Option<String>) = (row.get(0)?, row.get(1)?);
            let coordinators: Option<String> = row.get(2)?;
            let project = projects.entry(account).or_default();
            project.members.extend(user);
            let names = coordinators.iter().flat_map(|names| names.split(','));
            project.managers.extend(names.filter(|name| !name.is_empty()).map(str::to_owned));
        }
        for said in &site.projects {
            let project = projects.entry(said.name.clone()).or_default();
            if let Some(members) = &said.members {
                project.members = members.clone();
            }
            if let Some(managers) = &said.managers {
                project.managers = managers.clone();
            }
        }
        Ok(People { site: site.people.clone(), projects })
    }
}

/// Who is known now, for all who ask.
#[derive(Debug, Default)]
pub(crate) struct Shared(RwLock<Arc<People>>);

impl Shared {
    pub fn get(&self) -> Arc<People> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn put(&self, people: People) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(people);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn people(see_project: &str) -> People {
        let connection = Connection::open_in_memory().unwrap();
        crate::schema::migrate(&connection).unwrap();
        connection
            .execute_batch(
                "INSERT INTO site_association BY NAME SELECT 'c' AS cluster, * FROM (VALUES \
                   ('physics', 'paul', 'pia'), ('physics', NULL, 'pia'), ('chemistry', 'carl', ''), ('chemistry', 'paul', NULL)) \
                   t(account, \"user\", coordinators)",
            )
            .unwrap();
        let site = format!(
            "[people]\nadministrators = ['ada']\nsupport = ['sven']\nsee_project = '{see_project}'\n\
             [[project]]\nname = 'chemistry'\nmanagers = ['carl']"
        );
        People::load(&connection, &Site::parse(&site).unwrap()).unwrap()
    }

    #[test]
    fn who_sees_what() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let own = |user: &str, projects: &[&str], member_of: &[&str]| Sight::Own {
            user: user.into(),
            projects: names(projects),
            member_of: names(member_of),
        };
        for (see, user, role, sight) in [
            ("managers", "ada", Role::Administrator, Sight::Administrator { user: "ada".into() }),
            ("managers", "sven", Role::Support, Sight::Support { user: "sven".into(), member_of: vec![] }),
            ("managers", "pia", Role::Manager, own("pia", &["physics"], &["physics"])),
            ("managers", "carl", Role::Manager, own("carl", &["chemistry"], &["chemistry"])),
            ("managers", "paul", Role::User, own("paul", &[], &["chemistry", "physics"])),
            (
                "members",
                "paul",
                Role::User,
                own("paul", &["chemistry", "physics"], &["chemistry", "physics"]),
            ),
            ("members", "nobody", Role::User, own("nobody", &[], &[])),
        ] {
            let people = people(see);
            assert_eq!(people.role(user), role, "{user}");
            assert_eq!(people.sight(user), sight, "{user} where {see} see a project");
        }
    }
}
