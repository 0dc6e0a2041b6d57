//! The rules of enrollment: which agent gets a token of its own by itself, and what an administrator has to allow.
//!
//! A name that never had a token is enrolled at once. One that has, or ever had, a token waits for approval: whoever has stolen an enrollment
//! token must not become a node that is known already. An agent that asks again with the token it has asked with before gets the same answer.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::IpAddr;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::secret::Digest;
use crate::token_file::Content;
use crate::tokens::{Grant, Refused, Token};

/// An enrollment token is good for this long, unless something else is said.
pub const LASTS: SignedDuration = SignedDuration::from_hours(7 * 24);
/// What was approved and not used is forgotten after this time.
const APPROVED_FOR: SignedDuration = SignedDuration::from_hours(7 * 24);
/// So many agents may wait for one name; nobody can fill the list with others.
const WAITING_MAX: usize = 4;
/// Lists of hosts that are remembered as they were expanded.
const LISTS: usize = 16;

/// How an agent came by its token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enrolled {
    /// The name of the enrollment token.
    pub by: String,
    pub from: IpAddr,
}

/// An agent that asks for a name which has been enrolled before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    pub host: String,
    /// Of the token that the agent has made.
    pub hash: Digest,
    #[serde(flatten)]
    pub enrolled: Enrolled,
    pub since: Timestamp,
}

/// A name may be enrolled once more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    pub host: String,
    /// The agent that was meant, if one waited; otherwise the next that comes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<Digest>,
    pub until: Timestamp,
}

/// What an agent asks.
#[derive(Debug, Clone)]
pub struct Asked {
    pub host: String,
    /// Of the token that the agent has made.
    pub hash: Digest,
    pub from: IpAddr,
    /// The name of the enrollment token it came with.
    pub by: String,
}

/// The name of the agent's token, which is good from now on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    New(String),
    /// It was so before: the answer got lost.
    Known(String),
}

/// Why an agent gets no token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotEnrolled {
    #[error(transparent)]
    Token(#[from] Refused),
    #[error("host {host:?} is not in the list of the enrollment token {by}")]
    NotListed { host: String, by: String },
    #[error("the enrollment token {by} has been used for {uses} hosts, which is all it is for")]
    UsedUp { by: String, uses: u32 },
    #[error(
        "{host} has been enrolled before, and not by this agent: an administrator can allow it with \
         `jobglass-server token approve --host {host} --request {request}`"
    )]
    Before { host: String, request: String },
    #[error(
        "{host} has been enrolled before, and {WAITING_MAX} agents wait to be approved as {host} already: an \
         administrator sees them with `jobglass-server token list`"
    )]
    Crowded { host: String },
    #[error("the agent's token was revoked, or is another's: it has to make another one")]
    Spent,
}

/// Why an administrator's wish makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotApproved {
    #[error("{0:?} has never been enrolled: it needs no approval")]
    Unknown(String),
    #[error("no agent waits for {host} with request {request}; see jobglass-server token list")]
    NoRequest { host: String, request: String },
    #[error("{count} agents wait to be {host}: say which one with --request; see jobglass-server token list")]
    Several { host: String, count: usize },
}

/// Lists of hosts as they were expanded, because thousands of agents come with the same one.
#[derive(Default)]
pub struct Lists(HashMap<String, HashSet<String>>);

impl Lists {
    fn has(&mut self, list: &str, host: &str) -> bool {
        if self.0.len() >= LISTS && !self.0.contains_key(list) {
            self.0.clear();
        }
        // The list was expanded when the token was made.
        let expand = || hostlist::expand(list).unwrap_or_default().into_iter().collect();
        self.0.entry(list.to_owned()).or_insert_with(expand).contains(host)
    }
}

impl Content {
    /// Gives an agent its token, if it may have it.
    pub fn enroll(
        &mut self,
        asked: &Asked,
        lists: &mut Lists,
        now: Timestamp,
    ) -> Result<Answer, NotEnrolled> {
        let Asked { host, hash, by, .. } = asked;
        let uses = self.uses_for(asked, lists, now)?;
        if let Some(token) = self.tokens.iter().find(|token| token.hash == *hash) {
            let is_good = token.is_of(host) && token.check(now).is_ok();
            return if is_good { Ok(Answer::Known(token.id.clone())) } else { Err(NotEnrolled::Spent) };
        }
        let approved = self.approval(host, *hash, now);
        if approved.is_none() && self.tokens.iter().any(|token| token.is_of(host)) {
            return Err(self.note_waiting(asked, now));
        }
        let names = self.hosts_of(by);
        if !names.contains(host.as_str()) && names.len() >= uses as usize {
            return Err(NotEnrolled::UsedUp { by: by.clone(), uses });
        }
        if let Some(at) = approved {
            self.approved.remove(at);
            self.revoke_host(host, now);
        }
        self.waiting.retain(|waiting| waiting.host != *host);
        let id = self.next_id();
        self.tokens.push(Token {
            id: id.clone(),
            grant: Grant::Node { host: host.clone() },
            hash: *hash,
            created: now,
            expires: None,
            revoked: None,
            enrolled: Some(Enrolled { by: by.clone(), from: asked.from }),
        });
        Ok(Answer::New(id))
    }

    /// For how many hosts the enrollment token is, if it is good and this host is among them.
    fn uses_for(&self, asked: &Asked, lists: &mut Lists, now: Timestamp) -> Result<u32, NotEnrolled> {
        let Asked { host, by, .. } = asked;
        let token = self.tokens.iter().find(|token| token.id == *by).ok_or(Refused::Unknown)?;
        token.check(now)?;
        match &token.grant {
            Grant::Enroll { hosts, uses } if lists.has(hosts, host) => Ok(*uses),
            _ => Err(NotEnrolled::NotListed { host: host.clone(), by: by.clone() }),
        }
    }

    /// The hosts that an enrollment token was used for. A host that was enrolled with it again, after approval, counts once.
    pub fn hosts_of(&self, by: &str) -> BTreeSet<&str> {
        let enrolled =
            self.tokens.iter().filter(|token| token.enrolled.as_ref().is_some_and(|it| it.by == by));
        enrolled
            .filter_map(|token| match &token.grant {
                Grant::Node { host } => Some(host.as_str()),
                _ => None,
            })
            .collect()
    }

    /// Where the approval is that an agent can use.
    fn approval(&self, host: &str, hash: Digest, now: Timestamp) -> Option<usize> {
        self.approved.iter().position(|approval| {
            approval.host == host && approval.until > now && approval.hash.is_none_or(|meant| meant == hash)
        })
    }

    /// Remembers who waits for approval, and says so.
    fn note_waiting(&mut self, asked: &Asked, now: Timestamp) -> NotEnrolled {
        let Asked { host, hash, from, by } = asked.clone();
        let request = hash.short();
        let of_host: Vec<&Waiting> = self.waiting.iter().filter(|waiting| waiting.host == host).collect();
        if !of_host.iter().any(|waiting| waiting.hash == hash) {
            if of_host.len() >= WAITING_MAX {
                return NotEnrolled::Crowded { host };
            }
            let waiting = Waiting { host: host.clone(), hash, enrolled: Enrolled { by, from }, since: now };
            self.waiting.push(waiting);
        }
        NotEnrolled::Before { host, request }
    }

    fn revoke_host(&mut self, host: &str, now: Timestamp) {
        for token in self.tokens.iter_mut().filter(|token| token.is_of(host)) {
            token.revoked.get_or_insert(now);
        }
    }

    /// Lets each of these hosts be enrolled once more, by the agent that waits for it or else by the next that comes. What tokens they have
    /// are revoked at once.
    pub fn approve(
        &mut self,
        hosts: &[String],
        request: Option<&str>,
        now: Timestamp,
    ) -> Result<(), NotApproved> {
        for host in hosts {
            let hash = self.meant(host, request)?;
            self.revoke_host(host, now);
            self.approved.retain(|approval| approval.host != *host && approval.until > now);
            self.approved.push(Approval { host: host.clone(), hash, until: now + APPROVED_FOR });
        }
        Ok(())
    }

    /// Which agent is meant; `None` for whichever comes.
    fn meant(&self, host: &str, request: Option<&str>) -> Result<Option<Digest>, NotApproved> {
        if !self.tokens.iter().any(|token| token.is_of(host)) {
            return Err(NotApproved::Unknown(host.to_owned()));
        }
        let mut waiting = self.waiting.iter().filter(|waiting| waiting.host == host);
        if let Some(request) = request {
            let meant = waiting.find(|waiting| waiting.hash.short() == request);
            let no_request = || NotApproved::NoRequest { host: host.to_owned(), request: request.to_owned() };
            return meant.map(|waiting| Some(waiting.hash)).ok_or_else(no_request);
        }
        let (meant, others) = (waiting.next(), waiting.count());
        if others > 0 {
            return Err(NotApproved::Several { host: host.to_owned(), count: others + 1 });
        }
        Ok(meant.map(|waiting| waiting.hash))
    }

    /// Makes a token worthless, and who waits with it waits no longer; `with_hosts` also those that agents got with it. Returns how many
    /// tokens were good before; `None` if there is no such token.
    pub fn revoke(&mut self, id: &str, with_hosts: bool, now: Timestamp) -> Option<usize> {
        if !self.tokens.iter().any(|token| token.id == id) {
            return None;
        }
        self.waiting.retain(|waiting| waiting.enrolled.by != id);
        let is_meant = |token: &Token| {
            token.id == id || with_hosts && token.enrolled.as_ref().is_some_and(|enrolled| enrolled.by == id)
        };
        let good = self.tokens.iter_mut().filter(|token| is_meant(token) && token.revoked.is_none());
        Some(good.map(|token| token.revoked = Some(now)).count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::make;

    const FROM: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    /// What a site has, with an enrollment token `t1`.
    struct Site {
        content: Content,
        lists: Lists,
        now: Timestamp,
    }

    impl Site {
        fn new(hosts: &str, uses: u32) -> Site {
            let now = Timestamp::now();
            let mut site = Site { content: Content::default(), lists: Lists::default(), now };
            site.add(hosts, uses);
            site
        }

        fn add(&mut self, hosts: &str, uses: u32) -> String {
            let grant = Grant::Enroll { hosts: hosts.into(), uses };
            let (_, token) = make(&self.content.next_id(), grant, Some(self.now + LASTS)).unwrap();
            self.content.tokens.push(token);
            self.content.tokens.last().unwrap().id.clone()
        }

        fn ask_with(&mut self, by: &str, host: &str, secret: &str) -> Result<Answer, NotEnrolled> {
            let asked = Asked { host: host.into(), hash: Digest::of(secret), from: FROM, by: by.into() };
            self.content.enroll(&asked, &mut self.lists, self.now)
        }

        fn ask(&mut self, host: &str, secret: &str) -> Result<Answer, NotEnrolled> {
            self.ask_with("t1", host, secret)
        }

        fn approve(&mut self, host: &str, request: Option<&str>) -> Result<(), NotApproved> {
            self.content.approve(&[host.into()], request, self.now)
        }

        fn good_tokens_of(&self, host: &str) -> Vec<&str> {
            let tokens = self.content.tokens.iter().filter(|token| token.is_of(host));
            tokens.filter(|token| token.check(self.now).is_ok()).map(|token| token.id.as_str()).collect()
        }
    }

    fn before(host: &str, secret: &str) -> Result<Answer, NotEnrolled> {
        Err(NotEnrolled::Before { host: host.into(), request: Digest::of(secret).short() })
    }

    #[test]
    fn each_host_of_the_list_is_enrolled_once_and_asking_again_changes_nothing() {
        let mut site = Site::new("n[1-3]", 2);
        assert_eq!(site.ask("n1", "a"), Ok(Answer::New("t2".into())));
        assert_eq!(site.ask("n1", "a"), Ok(Answer::Known("t2".into())));
        let not_listed = NotEnrolled::NotListed { host: "n4".into(), by: "t1".into() };
        assert_eq!(site.ask("n4", "d"), Err(not_listed));
        assert_eq!(site.ask("n2", "a"), Err(NotEnrolled::Spent), "a token is of one host");
        assert_eq!(site.ask("n2", "b"), Ok(Answer::New("t3".into())));
        assert_eq!(site.ask("n3", "c"), Err(NotEnrolled::UsedUp { by: "t1".into(), uses: 2 }));
        assert_eq!(site.ask("n2", "b"), Ok(Answer::Known("t3".into())), "used up, and still the same");
        assert_eq!(site.content.hosts_of("t1"), BTreeSet::from(["n1", "n2"]));
        let kept = serde_json::to_string(&site.content).unwrap();
        assert_eq!(serde_json::from_str::<Content>(&kept).unwrap(), site.content);
    }

    #[test]
    fn a_name_that_ever_had_a_token_waits_for_approval() {
        let mut site = Site::new("n[1-3]", 3);
        let (_, by_hand) = make("t2", Grant::Node { host: "n2".into() }, None).unwrap();
        let revoked = Some(site.now);
        let (_, gone) = make("t3", Grant::Node { host: "n3".into() }, None).unwrap();
        site.content.tokens.extend([by_hand, Token { revoked, ..gone }]);
        site.ask("n1", "a").unwrap();
        for host in ["n1", "n2", "n3"] {
            assert_eq!(site.ask(host, host), before(host, host));
            assert_eq!(site.ask(host, host), before(host, host));
        }
        assert_eq!(site.content.waiting.len(), 3, "each once");
        assert_eq!(site.approve("n2", None), Ok(()));
        assert!(site.good_tokens_of("n2").is_empty(), "the old one is revoked");
        assert_eq!(site.ask("n2", "another"), before("n2", "another"), "the one that waited was meant");
        assert_eq!(site.ask("n2", "n2"), Ok(Answer::New("t5".into())));
        assert_eq!(site.good_tokens_of("n2"), ["t5"]);
        assert_eq!(site.ask("n2", "another"), before("n2", "another"), "once");
        assert_eq!(site.approve("n9", None), Err(NotApproved::Unknown("n9".into())));
    }

    #[test]
    fn of_several_that_wait_one_is_named() {
        let mut site = Site::new("n1", 1);
        site.ask("n1", "first").unwrap();
        for number in 0..WAITING_MAX {
            let secret = number.to_string();
            assert_eq!(site.ask("n1", &secret), before("n1", &secret));
        }
        assert_eq!(site.ask("n1", "one more"), Err(NotEnrolled::Crowded { host: "n1".into() }));
        let several = NotApproved::Several { host: "n1".into(), count: WAITING_MAX };
        assert_eq!(site.approve("n1", None), Err(several));
        assert!(matches!(site.approve("n1", Some("0000")), Err(NotApproved::NoRequest { .. })));
        assert_eq!(site.good_tokens_of("n1"), ["t2"], "what fails revokes nothing");
        assert_eq!(site.approve("n1", Some(&Digest::of("2").short())), Ok(()));
        assert_eq!(site.ask("n1", "1"), before("n1", "1"));
        // The token is for one host, and this is the same one.
        assert_eq!(site.ask("n1", "2"), Ok(Answer::New("t3".into())));
        assert!(site.content.waiting.is_empty());
        assert_eq!(site.ask("n1", "first"), Err(NotEnrolled::Spent), "what was revoked is not good again");
    }

    #[test]
    fn approvals_and_enrollment_tokens_end() {
        let mut site = Site::new("n[1-2]", 2);
        site.ask("n1", "a").unwrap();
        assert_eq!(site.approve("n1", None), Ok(()));
        site.now += APPROVED_FOR;
        assert_eq!(site.ask("n1", "b"), Err(Refused::Expired.into()));
        let next = site.add("n[1-2]", 2);
        assert_eq!(site.ask_with(&next, "n1", "b"), before("n1", "b"), "nobody came in time");
        assert_eq!(site.approve("n1", None), Ok(()));
        assert_eq!(site.ask_with(&next, "n1", "b"), Ok(Answer::New("t4".into())));
    }

    #[test]
    fn revoking_an_enrollment_token_leaves_its_hosts_unless_asked() {
        let mut site = Site::new("n[1-2]", 2);
        site.ask("n1", "a").unwrap();
        site.ask("n1", "b").unwrap_err();
        let other = site.add("n2", 1);
        site.ask_with(&other, "n2", "c").unwrap();
        assert_eq!(site.content.revoke("t9", true, site.now), None);
        assert_eq!(site.content.revoke("t1", false, site.now), Some(1));
        assert_eq!(site.ask("n2", "d"), Err(Refused::Revoked.into()));
        assert!(site.content.waiting.is_empty());
        assert_eq!(site.good_tokens_of("n1"), ["t2"]);
        assert_eq!(site.content.revoke("t1", true, site.now), Some(1));
        assert!(site.good_tokens_of("n1").is_empty());
        assert_eq!(site.good_tokens_of("n2").len(), 1, "of another enrollment token");
    }
}
