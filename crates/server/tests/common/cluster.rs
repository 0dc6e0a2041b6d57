//! A cluster of two users, each with a job of which everything is known that can be, and people with every role.

use std::fs;

use jiff::Timestamp;
use record::accounting::{Accounting, Placed, State, Step};
use record::entry::{Entry, Object, ObjectList, Place};
use record::measure::{Job, Measures, Name, Told};
use record::metric::id;
use record::reading::{CommandReading, JobReading, Reading, Reserved, Values};
use record::site::{Association, SiteData};
use serde_json::Value;

use super::{Server, batch, image};

pub const SECOND: u64 = 1_000_000_000;

/// Ada is administrator, Sven supports, Pia manages the project of Otto's job; Zora and Eve are users.
pub const SITE: &str = "[people]\nadministrators = ['ada']\nsupport = ['sven']\n[[project]]\nname = 'physics'\nmanagers = ['pia']\n";

pub struct Cluster {
    pub server: Server,
    pub now: u64,
}

impl Cluster {
    pub fn start(site: &str, options: &[&str]) -> Cluster {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("data")).unwrap();
        fs::write(dir.path().join("data/site.toml"), site).unwrap();
        let server = Server::start_in(dir, options);
        let cluster = Cluster { server, now: Timestamp::now().as_nanosecond() as u64 };
        cluster.fill();
        cluster
    }

    pub fn token_of(&self, user: &str) -> String {
        self.server.command(&["token", "create", "--user", user])
    }

    pub fn send(&self, method: &str, path: &str, body: Vec<u8>) {
        let url = format!("http://{}/api/v1/{path}", self.server.address);
        let agent = Server::agent();
        let request = if method == "PUT" { agent.put(url) } else { agent.post(url) };
        let request = request.header("authorization", format!("Bearer {}", self.server.token("admin")));
        let mut answer = request.header("content-type", "application/cbor").send(&body[..]).unwrap();
        let text = answer.body_mut().read_to_string().unwrap();
        assert_eq!(answer.status(), 200, "{path}: {text}");
    }

    /// A job of Zora's, with everything that can be known of a job, and one of Otto's.
    fn fill(&self) {
        let associations = [("zoology-zora", "zora"), ("physics", "otto"), ("physics", "pia")];
        let association = |(account, user): (&str, &str)| Association {
            cluster: "tiny".into(),
            account: account.into(),
            user: Some(user.into()),
            ..Association::default()
        };
        let site = SiteData {
            cluster: Some("tiny".into()),
            associations: associations.map(association).into(),
            ..SiteData::default()
        };
        self.send("PUT", "site", minicbor::to_vec(&site).unwrap());
        let jobs = [self.job("424242", "zora", "zoology-zora"), self.job("7", "otto", "physics")];
        self.send("POST", "accounting", minicbor::to_vec(&jobs).unwrap());
        let told = |number: &str, metric: &str| Told {
            job: Job { cluster: Some("tiny".into()), number: number.into(), ..Job::default() },
            metric: Name::Own(metric.into()),
            avg: Some(1.0),
            ..Told::default()
        };
        let told = vec![told("424242", "zoras_metric"), told("7", "ottos_metric")];
        self.send("POST", "measures", minicbor::to_vec(&Measures { told, ..Measures::default() }).unwrap());
        self.send("POST", "notes", br#"{"job": "424242", "text": "Zora says it converges slowly"}"#.to_vec());
        self.send(
            "POST",
            "notes",
            br#"{"program": "/home/zora/*", "text": "a note on a program of Zora"}"#.to_vec(),
        );
        self.send("POST", "cases", br#"{"job": "424242", "reason": "Zora reserves too much"}"#.to_vec());
        self.send("POST", "cases/1", br#"{"text": "Zora was called"}"#.to_vec());
        let entries = [self.programs("424242", "zora", 1), self.programs("7", "otto", 2)].concat();
        assert_eq!(self.server.post(&batch("n1", 1, &entries), &self.server.token("ingest"), &[]).0, 200);
    }

    pub fn job(&self, number: &str, user: &str, project: &str) -> Accounting {
        let text = |what: &str| Some(format!("{user}-{what}").as_bytes().into());
        Accounting {
            cluster: Some("tiny".into()),
            job: Some(number.into()),
            shown: number.into(),
            user: Some(user.into()),
            account: Some(project.into()),
            partition: Some("cpu".into()),
            name: text("name"),
            comment: text("comment"),
            work_dir: text("dir"),
            submit: Some(self.now - 100 * SECOND),
            start: Some(self.now - 90 * SECOND),
            end: Some(self.now),
            elapsed: Some(90 * SECOND),
            state: Some(State::Completed),
            nodes: Some(1),
            cpus: Some(2),
            node_list: Some("n1".into()),
            steps: vec![Step { step: "0".into(), name: text("step"), ..Step::default() }],
            placed: vec![Placed { host: "n1".into(), ..Placed::default() }],
            ..Accounting::default()
        }
    }

    fn programs(&self, job: &str, user: &str, list: u64) -> Vec<Entry> {
        let bytes = |text: String| text.as_bytes().into();
        let objects = vec![Object {
            path: bytes(format!("/home/{user}/lib{user}.so")),
            build_id: None,
            signature: None,
            file: None,
            claimed: false,
        }];
        let mut program = image(user, list as u32, self.now - 80 * SECOND);
        if let Entry::Image(image) = &mut program {
            image.exe = Some(bytes(format!("/home/{user}/{user}-program")));
            image.argv = Some(vec![bytes(format!("{user}-argument"))]);
            image.env = Some(vec![bytes(format!("SECRET_OF={user}"))]);
            image.modules = Some(vec![bytes(format!("{user}-module/1"))]);
            image.objects = Some(list);
            image.place = Place { cluster: Some("tiny".into()), job: Some(job.into()), ..Place::default() };
        }
        let mut session = image(user, 10 + list as u32, self.now - 70 * SECOND);
        if let Entry::Image(image) = &mut session {
            image.exe = Some(bytes(format!("/home/{user}/{user}-shell")));
            image.place.session = Some(format!("{user}-session"));
        }
        let mut values = Values::default();
        values.put(id::CPU, Some(2 * SECOND));
        let command = CommandReading { command: bytes(format!("{user}-command")), values: values.clone() };
        let reading = JobReading {
            cluster: Some("tiny".into()),
            job: Some(job.into()),
            user: Some(user.into()),
            start: self.now - 90 * SECOND,
            every: 30 * SECOND,
            values,
            reserved: Some(Reserved { cpus: Some(2), memory: None, gpus: None }),
            commands: vec![command],
            ..JobReading::default()
        };
        let reading =
            Reading { time: self.now, host: "n1".into(), jobs: vec![reading], ..Reading::default() };
        let objects = Entry::Objects(ObjectList { id: list, objects });
        vec![objects, program, session, Entry::Reading(Box::new(reading))]
    }

    /// Whatever is not a question: `POST`, or `DELETE`.
    pub fn change(&self, user: &str, method: &str, path: &str, body: &str) -> (u16, String) {
        let url = format!("http://{}/api/v1/{path}", self.server.address);
        let token = format!("Bearer {}", self.token_of(user));
        let agent = Server::agent();
        let answer = match method {
            "DELETE" => agent.delete(url).header("authorization", token).call(),
            "POST" => agent.post(url).header("authorization", token).send(body),
            _ => panic!("{method}"),
        };
        let mut answer = answer.unwrap();
        (answer.status().as_u16(), answer.body_mut().read_to_string().unwrap())
    }

    /// What somebody says of a job.
    pub fn say(&self, user: &str, job: &str, tag: &str, more: &str) -> (u16, String) {
        let tag = tag.replace(' ', "%20");
        self.change(user, "POST", &format!("jobs/{job}/tags?tag={tag}&has=true{more}"), "")
    }

    pub fn get(&self, user: &str, path: &str) -> Value {
        let (_, text) = self.server.get(&format!("/api/v1/{path}"), Some(&self.token_of(user))).unwrap();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    /// The numbers of the jobs that somebody finds.
    pub fn found(&self, user: &str, query: &str) -> Vec<String> {
        let answer = self.get(user, &format!("jobs?columns=job&sort=job&{query}"));
        let jobs = answer["rows"].as_array().unwrap_or_else(|| panic!("{answer}")).iter();
        jobs.map(|row| row["job"].as_str().unwrap().to_owned()).collect()
    }
}
