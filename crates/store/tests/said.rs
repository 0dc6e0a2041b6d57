//! Whatever happens to jobs and tags, whoever filters by tags finds what the rules say and what people said, as far as they see it: beside a
//! model that knows nothing of bits.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use proptest::prelude::*;
use record::accounting::{Accounting, State};
use serde_json::{Map, Value};
use store::jobs::{Page, Tagged, Wanted, Which, column};
use store::sight::Sight;
use store::tags::{Assignment, PIECE};
use store::{Accounts, Filter, Forget, Limits, Reader, Store, Writer};
use tags::{Name, Space};

const SECOND: u64 = 1_000_000_000;
const START: u64 = 1_800_000_000 * SECOND;

const COMPLETED: &str = "job_status COMPLETED";
const ITERATIVE: &str = "job_behavior ITERATIVE";
/// Of a project: people have declared it, so it has no bit.
const OWN: &str = "physics OWN";
const TAGS: [&str; 3] = [COMPLETED, ITERATIVE, OWN];
/// The first is whose the jobs are; the others can be forgotten.
const PEOPLE: [&str; 4] = ["anna", "pia", "sven", "ada"];
const ADMINISTRATOR: usize = 3;
const JOBS: usize = 4;

#[derive(Debug, Clone)]
enum Event {
    Say {
        job: usize,
        tag: usize,
        is_set: bool,
        is_personal: bool,
        by: usize,
    },
    /// The batch system says again what it said, or for the first time.
    Tell(usize),
    Run,
    RunOf(usize),
    Reopen,
    Forget(usize),
}

fn event() -> impl Strategy<Value = Event> {
    let say = (0..JOBS, 0..TAGS.len(), any::<bool>(), prop::bool::weighted(0.3), 0..PEOPLE.len())
        .prop_map(|(job, tag, is_set, is_personal, by)| Event::Say { job, tag, is_set, is_personal, by });
    prop_oneof![
        12 => say,
        3 => (0..JOBS).prop_map(Event::Tell),
        1 => Just(Event::Run),
        1 => Just(Event::RunOf(0)),
        1 => Just(Event::Reopen),
        1 => (1..PEOPLE.len()).prop_map(Event::Forget),
    ]
}

/// The first two have completed, one has failed, the last one waits and wishes a tag.
fn account(job: usize) -> Accounting {
    let number = job.to_string();
    let submit = Some(START + job as u64);
    let waits = Accounting {
        job: Some(number.clone()),
        shown: number,
        user: Some(PEOPLE[0].into()),
        account: Some("physics".into()),
        submit,
        state: Some(State::Pending),
        ..Accounting::default()
    };
    if job == JOBS - 1 {
        return Accounting { comment: Some(format!("tag:{ITERATIVE}").as_bytes().into()), ..waits };
    }
    let state = if job < 2 { State::Completed } else { State::Failed };
    Accounting { start: submit, end: Some(START + 3600 * SECOND), state: Some(state), ..waits }
}

/// What was said last.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Word {
    is_set: bool,
    by: usize,
}

#[derive(Debug, Default)]
struct Model {
    told: BTreeSet<usize>,
    has_wished: bool,
    words: BTreeMap<(usize, usize), Word>,
    personal: BTreeMap<(usize, usize, usize), bool>,
}

impl Model {
    /// The wish of the last job counts once.
    fn tell(&mut self, job: usize) {
        self.told.insert(job);
        if job == JOBS - 1 && !self.has_wished {
            self.has_wished = true;
            self.words.insert((job, 1), Word { is_set: true, by: 0 });
        }
    }

    fn forget(&mut self, by: usize) {
        self.words.retain(|_, word| word.by != by);
        self.personal.retain(|(_, _, of), _| *of != by);
    }

    fn has(&self, job: usize, tag: usize, sight: &Sight) -> bool {
        let word = self.words.get(&(job, tag));
        // What an owner has removed is still found by those who look after all jobs; what an administrator has removed by nobody.
        let is_owners = matches!(sight, Sight::Own { .. });
        let stays = |word: &Word| word.is_set || !is_owners && word.by != ADMINISTRATOR;
        let is_rules = tag == 0 && job < 2 && word.is_none_or(stays);
        let sees = |word: &&Word| match sight {
            Sight::Support { user, .. } => PEOPLE[word.by] == user,
            _ => true,
        };
        let is_own = |by: usize| sight.user().is_none_or(|user| user == PEOPLE[by]);
        let mut personal = (0..PEOPLE.len()).filter(|by| is_own(*by));
        is_rules
            || word.filter(sees).is_some_and(|word| word.is_set)
            || personal.any(|by| self.personal.get(&(job, tag, by)) == Some(&true))
    }
}

struct Tried {
    dir: tempfile::TempDir,
    open: Option<Open>,
    model: Model,
}

struct Open {
    store: Store,
    writer: Writer,
    readers: [(Sight, Reader); 6],
}

impl Open {
    fn new(dir: &Path) -> Open {
        let store = Store::open(dir, &Limits::default()).unwrap();
        let writer = store.writer().unwrap();
        let readers = sights().map(|sight| {
            let reader = store.reader_with(&sight).unwrap();
            (sight, reader)
        });
        Open { store, writer, readers }
    }
}

impl Tried {
    fn new() -> Tried {
        let dir = tempfile::tempdir().unwrap();
        let mut open = Open::new(dir.path());
        let (name, space) = (Name::try_from(OWN.to_owned()).unwrap(), Space::Project("physics".into()));
        open.writer.declare_own(&name, &space, "Ours.", "anna").unwrap().unwrap();
        Tried { dir, open: Some(open), model: Model::default() }
    }

    fn store(&self) -> &Store {
        &self.open.as_ref().unwrap().store
    }

    fn writer(&mut self) -> &mut Writer {
        &mut self.open.as_mut().unwrap().writer
    }

    fn happen(&mut self, event: &Event) {
        match *event {
            Event::Say { job, tag, is_set, is_personal, by } => {
                let filter = Filter { job: Some(job.to_string()), ..Filter::default() };
                let Some(owned) = self.store().reader().unwrap().owned(&filter).unwrap() else { return };
                let (id, user) = (owned.id, PEOPLE[by].to_owned());
                let known = self.store().tags().named(TAGS[tag]).unwrap().tag.declared.id;
                let by_administrator = by == ADMINISTRATOR;
                let said = Assignment {
                    id,
                    tag: known,
                    is_set,
                    is_personal,
                    by: user,
                    by_administrator,
                    reason: None,
                };
                let is_new = self.writer().assign(&said).unwrap();
                let is_other = if is_personal {
                    self.model.personal.insert((job, tag, by), is_set) != Some(is_set)
                } else {
                    // What an owner has removed, an administrator removes for everybody.
                    let is_same = |word: &Word| {
                        word.is_set == is_set && (is_set || word.by == ADMINISTRATOR || !by_administrator)
                    };
                    let is_other = !self.model.words.get(&(job, tag)).is_some_and(is_same);
                    if is_other {
                        self.model.words.insert((job, tag), Word { is_set, by });
                    }
                    is_other
                };
                assert_eq!(is_new, is_other);
            }
            Event::Tell(job) => {
                self.writer().account(&Accounts::of(&[account(job)]).unwrap()).unwrap();
                self.model.tell(job);
            }
            Event::Run => self.run(None),
            Event::RunOf(tag) => {
                let tag = self.store().tags().named(TAGS[tag]).unwrap().tag.declared.id;
                self.run(Some(tag));
            }
            Event::Reopen => {
                // A file that is opened twice would be damaged.
                self.open = None;
                self.open = Some(Open::new(self.dir.path()));
            }
            Event::Forget(by) => {
                self.writer().forget(&Forget::User(PEOPLE[by].into())).unwrap();
                self.model.forget(by);
            }
        }
    }

    fn run(&mut self, tag: Option<u32>) {
        self.writer().begin_run(None, tag).unwrap();
        while !self.writer().judge_piece(PIECE).unwrap().is_last {}
    }

    fn judge(&mut self) {
        while !self.writer().judge_due(PIECE).unwrap().is_last {}
    }

    /// What filters find of tags, in three ways, and what is shown beside jobs.
    fn check(&self, tags: &[usize]) {
        for (sight, reader) in &self.open.as_ref().unwrap().readers {
            let declared = self.store().tags().seen_by(sight);
            let shown = listed(reader, &Tagged::default(), &["job", "tags"]);
            for tag in tags.iter().copied() {
                let wanted = Wanted::of(&declared, declared.named(TAGS[tag]).unwrap());
                let other = Wanted::of(&declared, declared.named("job_status TIMEOUT").unwrap());
                let told = self.model.told.iter().copied();
                let (having, lacking): (Vec<usize>, Vec<usize>) =
                    told.partition(|job| self.model.has(*job, tag, sight));
                for (tagged, expected) in [
                    (Tagged { all: vec![wanted], ..Tagged::default() }, &having),
                    (Tagged { any: vec![vec![wanted, other]], ..Tagged::default() }, &having),
                    (Tagged { none: vec![wanted, other], ..Tagged::default() }, &lacking),
                ] {
                    let found = listed(reader, &tagged, &["job"]);
                    let found: Vec<usize> = found.into_iter().map(|(job, _)| job).collect();
                    assert_eq!(found, *expected, "{} {tagged:?} {sight:?}", TAGS[tag]);
                }
                let is_it =
                    |name: &str| name.strip_suffix(" (removed by owner)").unwrap_or(name) == TAGS[tag];
                let shown = shown.iter().filter(|(_, tags)| tags.split(", ").any(is_it));
                let shown: Vec<usize> = shown.map(|(job, _)| *job).collect();
                assert_eq!(shown, having, "{} {sight:?}", TAGS[tag]);
            }
        }
    }
}

fn sights() -> [Sight; 6] {
    let own = |user: &str, projects: &[String]| Sight::Own {
        user: user.into(),
        projects: projects.to_vec(),
        member_of: vec!["physics".into()],
    };
    [
        Sight::All,
        Sight::Administrator { user: "ada".into() },
        Sight::Administrator { user: "pia".into() },
        Sight::Support { user: "sven".into(), member_of: vec!["physics".into()] },
        own("anna", &[]),
        own("pia", &["physics".to_owned()]),
    ]
}

/// Jobs, and the tags beside them.
fn listed(reader: &Reader, tagged: &Tagged, columns: &[&str]) -> Vec<(usize, String)> {
    let columns = columns.iter().map(|name| column(name).unwrap().clone()).collect();
    let page = Page {
        columns,
        sort: column("job").unwrap().clone(),
        is_ascending: true,
        limit: Some(100),
        after: None,
    };
    let which = Which { tagged: tagged.clone(), ..Which::default() };
    let rows = reader.jobs(&which, &page).unwrap().rows();
    assert_eq!(reader.count_jobs(&which).unwrap(), rows.len() as u64);
    let text = |row: &Map<String, Value>, name: &str| {
        row.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    rows.iter().map(|row| (text(row, "job").parse().unwrap(), text(row, "tags"))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, max_shrink_iters: 60, ..ProptestConfig::default() })]

    #[test]
    fn filters_find_what_rules_and_people_say(events in prop::collection::vec(event(), 1..20)) {
        let mut tried = Tried::new();
        [0, 1].map(Event::Tell).iter().for_each(|event| tried.happen(event));
        tried.judge();
        for event in &events {
            tried.happen(event);
            // What people say counts at once, what rules say when they have judged.
            tried.check(&[1, 2]);
            tried.judge();
        }
        tried.check(&[0, 1, 2]);
    }
}
