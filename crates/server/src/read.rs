//! Questions of people: who asks is checked here, the answer comes from the store.
#![expect(unused_qualifications, reason = "in what utoipa's macros make")]

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use condition::like::Pattern;
use jiff::Timestamp;
use record::metric;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use store::query::page;
use store::sight::Sight;
use store::{After, Filter, GroupBy, Listed, Per, Rule, UnknownNode};
use utoipa::{IntoParams, OpenApi, ToSchema};

use crate::app::App;
use crate::asker::{Asker, Support};
use crate::error::ApiError;
use crate::readers::ask;

/// Rows in one answer unless the question says otherwise, and at most.
const LIMIT: u64 = 1000;
const LIMIT_MAX: u64 = 1_000_000;

/// Which processes a question is about.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Which {
    cluster: Option<String>,
    /// A batch job, or a login session.
    job: Option<String>,
    user: Option<String>,
    /// A pattern for the path, or for its last part if there is no `/` in it.
    exe: Option<String>,
    /// A host, or a node of the batch system: a name, a list `n[01-04]`, or a pattern `n*`.
    host: Option<String>,
    #[param(value_type = Option<u64>, maximum = 4_294_967_295_u64)]
    pid: Option<u32>,
    /// Only what ended with an exit code other than 0, or by a signal.
    #[serde(default)]
    failed: bool,
    /// Only what runs: reported as running by an agent that is heard.
    #[serde(default)]
    running: bool,
    /// Whatever ran at this time or later.
    #[param(value_type = Option<String>, format = DateTime)]
    since: Option<Timestamp>,
    /// Whatever ran before this time.
    #[param(value_type = Option<String>, format = DateTime)]
    until: Option<Timestamp>,
    /// At most so many rows; 1000 unless given.
    #[param(minimum = 1, maximum = 1_000_000)]
    limit: Option<u64>,
    /// Behind this place: the `next` of the answer before.
    after: Option<String>,
}

impl Which {
    /// The filter asks for one row more than one answer has, to know whether there are more. `places` is how many numbers name a row of
    /// the list; with one, it is known by its position.
    fn filter(self, places: usize) -> Result<(Filter, u64), ApiError> {
        let limit = limited(self.limit)?;
        for text in [&self.cluster, &self.job, &self.user, &self.host].into_iter().flatten() {
            check_text(text)?;
        }
        self.exe.as_deref().map_or(Ok(()), check_glob)?;
        self.host.as_deref().map(named_nodes).transpose()?;
        let after = self.after.as_deref().map(|text| place(text, places)).transpose()?;
        let filter = Filter {
            cluster: self.cluster,
            job: self.job,
            user: self.user,
            exe: self.exe,
            host: self.host,
            pid: self.pid,
            is_failed: self.failed,
            is_running: self.running,
            since_ns: self.since.map(nanos),
            until_ns: self.until.map(nanos),
            limit: Some(limit + 1),
            after,
        };
        Ok((filter, limit))
    }
}

/// Rows of one answer: those that are wanted, as far as one part of a list has them.
pub fn limited(limit: Option<u64>) -> Result<u64, ApiError> {
    let limit = limit.unwrap_or(LIMIT);
    if !(1..=LIMIT_MAX).contains(&limit) {
        return Err(ApiError::BadRequest(format!("limit is {limit}, not between 1 and {LIMIT_MAX}")));
    }
    Ok(limit.min(page::ROWS))
}

/// A place in a list, whose rows are named by so many numbers.
pub fn place(text: &str, places: usize) -> Result<After, ApiError> {
    After::parse(text, places).ok_or_else(|| {
        ApiError::BadRequest(format!("`{text}` is no place in this list: `after` is the `next` of an answer"))
    })
}

/// Nothing ran before the year 1677 or will after 2262: what cannot be told apart means the same.
pub fn nanos(time: Timestamp) -> i64 {
    time.as_nanosecond().clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

/// The longest path there is; no name is longer.
const TEXT_MAX: usize = 4096;

/// The database takes no text with a zero in it.
pub fn check_long_text(text: &str) -> Result<(), ApiError> {
    if text.contains('\0') {
        return Err(ApiError::BadRequest("a zero byte in a name".into()));
    }
    Ok(())
}

/// A name.
pub fn check_text(text: &str) -> Result<(), ApiError> {
    check_long_text(text)?;
    if text.len() > TEXT_MAX {
        return Err(ApiError::BadRequest(format!("a name has at most {TEXT_MAX} bytes")));
    }
    Ok(())
}

/// A name or path with wildcards.
pub fn check_glob(text: &str) -> Result<(), ApiError> {
    check_text(text)?;
    Pattern::of_glob(text).check().map_err(|error| ApiError::BadRequest(error.to_string()))
}

/// Nodes: a name, a list as Slurm writes it, or a pattern.
pub fn named_nodes(text: &str) -> Result<store::Nodes, ApiError> {
    check_text(text)?;
    store::Nodes::parse(text).map_err(|error| ApiError::BadRequest(error.to_string()))
}

/// Nothing was found on these nodes: is there one of the name at all?
pub async fn check_known(app: &Arc<App>, asker: &Asker, nodes: Option<store::Nodes>) -> Result<(), ApiError> {
    let Some(nodes) = nodes else { return Ok(()) };
    let unknown = ask(app, &asker.sight, move |reader| reader.unknown_node(&nodes)).await?;
    unknown.map_or(Ok(()), |UnknownNode { name, nearest }| {
        let meant = nearest.map_or(String::new(), |nearest| format!("; is it `{nearest}`?"));
        Err(ApiError::BadRequest(format!("no node `{name}` is known here{meant}")))
    })
}

/// Rows, and whether there are more than were asked for.
#[derive(Debug, Serialize, ToSchema)]
pub struct Rows {
    #[schema(value_type = Vec<Object>)]
    rows: Vec<Map<String, Value>>,
    more: bool,
    /// Where the list goes on: to be sent as `after`. Null behind the last row.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// A part of a list, as it is sent: [`Rows`] that are written already.
pub struct Part(pub Listed);

impl Part {
    /// Of rows behind a position, of which there is one more than `limit` if the list goes on.
    pub fn of(rows: Vec<Map<String, Value>>, after: Option<&After>, limit: u64) -> Part {
        Part(Listed::of_rows(rows, after.map_or(0, After::position), limit))
    }
}

impl IntoResponse for Part {
    fn into_response(self) -> Response {
        json(self.0.into_json(&[]))
    }
}

/// An answer that is written already.
pub fn json(bytes: Vec<u8>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], bytes).into_response()
}

impl Rows {
    pub fn new(mut rows: Vec<Map<String, Value>>, limit: u64) -> Json<Rows> {
        let more = rows.len() as u64 > limit;
        rows.truncate(limit as usize);
        Json(Rows { rows, more, next: None })
    }
}

pub type Asked<T> = Result<Query<T>, QueryRejection>;

pub fn asked<T>(query: Asked<T>) -> Result<T, ApiError> {
    query.map(|Query(query)| query).map_err(|error| ApiError::BadRequest(error.body_text()))
}

/// Processes, in the order in which they began.
#[utoipa::path(get, path = "/api/v1/processes", params(Which), security(("token" = [])),
    responses((status = 200, body = Rows), (status = 400), (status = 401), (status = 403)))]
pub async fn processes(
    asker: Asker,
    State(app): State<Arc<App>>,
    query: Asked<Which>,
) -> Result<Part, ApiError> {
    let (filter, limit) = asked(query)?.filter(3)?;
    let filter = Filter { limit: Some(limit), ..filter };
    let nodes = filter.host.as_deref().filter(|_| filter.after.is_none()).map(named_nodes).transpose()?;
    let found = ask(&app, &asker.sight, move |reader| reader.processes(&filter)).await?;
    if found.is_empty() {
        check_known(&app, &asker, nodes).await?;
    }
    Ok(Part(found))
}

/// Programs, those that ran most first.
#[utoipa::path(get, path = "/api/v1/programs", params(Which), security(("token" = [])),
    responses((status = 200, body = Rows), (status = 400), (status = 401), (status = 403)))]
pub async fn programs(
    asker: Asker,
    State(app): State<Arc<App>>,
    query: Asked<Which>,
) -> Result<Part, ApiError> {
    let (filter, limit) = asked(query)?.filter(1)?;
    let after = filter.after.clone();
    let rows = ask(&app, &asker.sight, move |reader| reader.programs(&filter)).await?;
    Ok(Part::of(rows, after.as_ref(), limit))
}

/// Libraries, those of most jobs first.
#[utoipa::path(get, path = "/api/v1/libraries", params(Which), security(("token" = [])),
    responses((status = 200, body = Rows), (status = 400), (status = 401), (status = 403)))]
pub async fn libraries(
    asker: Asker,
    State(app): State<Arc<App>>,
    query: Asked<Which>,
) -> Result<Part, ApiError> {
    let (filter, limit) = asked(query)?.filter(1)?;
    let after = filter.after.clone();
    let rows = ask(&app, &asker.sight, move |reader| reader.libraries(&filter)).await?;
    Ok(Part::of(rows, after.as_ref(), limit))
}

/// Modules, those of most jobs first.
#[utoipa::path(get, path = "/api/v1/modules", params(Which), security(("token" = [])),
    responses((status = 200, body = Rows), (status = 400), (status = 401), (status = 403)))]
pub async fn modules(
    asker: Asker,
    State(app): State<Arc<App>>,
    query: Asked<Which>,
) -> Result<Part, ApiError> {
    let (filter, limit) = asked(query)?.filter(1)?;
    let after = filter.after.clone();
    let rows = ask(&app, &asker.sight, move |reader| reader.modules(&filter)).await?;
    Ok(Part::of(rows, after.as_ref(), limit))
}

/// What the answer to `uses` has one row for.
#[derive(Debug, Clone, Copy, Default, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum By {
    #[default]
    Job,
    User,
    Program,
    Library,
}

impl From<By> for GroupBy {
    fn from(by: By) -> Self {
        match by {
            By::Job => GroupBy::Job,
            By::User => GroupBy::User,
            By::Program => GroupBy::Program,
            By::Library => GroupBy::Library,
        }
    }
}

/// Which object is asked for, and of which processes.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Uses {
    /// A pattern for the path (with a `/` in it) or the name of a library, a build-id or a content hash.
    pattern: String,
    #[serde(default)]
    #[param(inline)]
    group_by: By,
    cluster: Option<String>,
    /// A batch job, or a login session.
    job: Option<String>,
    user: Option<String>,
    /// A pattern for the program's path, or for its last part if there is no `/` in it.
    exe: Option<String>,
    /// A host, or a node of the batch system.
    host: Option<String>,
    /// Whatever ran at this time or later.
    #[param(value_type = Option<String>, format = DateTime)]
    since: Option<Timestamp>,
    /// Whatever ran before this time.
    #[param(value_type = Option<String>, format = DateTime)]
    until: Option<Timestamp>,
    /// At most so many rows; 1000 unless given.
    #[param(minimum = 1, maximum = 1_000_000)]
    limit: Option<u64>,
    /// Behind this place: the `next` of the answer before.
    after: Option<String>,
}

/// Who loaded a library.
#[utoipa::path(get, path = "/api/v1/uses", params(Uses), security(("token" = [])),
    responses((status = 200, body = Rows), (status = 400), (status = 401), (status = 403)))]
pub async fn uses(asker: Asker, State(app): State<Arc<App>>, query: Asked<Uses>) -> Result<Part, ApiError> {
    let Uses { pattern, group_by, cluster, job, user, exe, host, since, until, limit, after } = asked(query)?;
    check_glob(&pattern)?;
    let which = Which {
        cluster,
        job,
        user,
        exe,
        host,
        pid: None,
        failed: false,
        running: false,
        since,
        until,
        limit,
        after,
    };
    let (filter, limit) = which.filter(1)?;
    let after = filter.after.clone();
    let rows = ask(&app, &asker.sight, move |reader| reader.uses(&pattern, group_by.into(), &filter)).await?;
    Ok(Part::of(rows, after.as_ref(), limit))
}

/// Of which processes the environments are checked, and by which rule.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Check {
    /// By this rule only.
    rule: Option<String>,
    cluster: Option<String>,
    /// A batch job, or a login session.
    job: Option<String>,
    user: Option<String>,
    /// Whatever ran at this time or later.
    #[param(value_type = Option<String>, format = DateTime)]
    since: Option<Timestamp>,
    /// Whatever ran before this time.
    #[param(value_type = Option<String>, format = DateTime)]
    until: Option<Timestamp>,
    /// At most so many rows; 1000 unless given.
    #[param(minimum = 1, maximum = 1_000_000)]
    limit: Option<u64>,
    /// Behind this place: the `next` of the answer before.
    after: Option<String>,
}

/// Runs with harmful or missing variables.
#[derive(Debug, Serialize, ToSchema)]
pub struct Checked {
    #[schema(value_type = Vec<Object>)]
    rows: Vec<Map<String, Value>>,
    more: bool,
    /// Where the list goes on: to be sent as `after`.
    next: Option<String>,
    /// Runs whose environment is not known.
    unchecked: u64,
}

/// Runs with harmful or missing variables, by the site's rules.
#[utoipa::path(get, path = "/api/v1/env-check", params(Check), security(("token" = [])),
    responses((status = 200, body = Checked), (status = 400), (status = 401), (status = 403), (status = 404)))]
pub async fn env_check(
    asker: Asker,
    State(app): State<Arc<App>>,
    query: Asked<Check>,
) -> Result<Response, ApiError> {
    let Check { rule, cluster, job, user, since, until, limit, after } = asked(query)?;
    let which = Which { cluster, job, user, since, until, limit, after, ..Which::default() };
    let (filter, limit) = which.filter(1)?;
    let after = filter.after.clone();
    let is_asked = |found: &&Rule| rule.as_ref().is_none_or(|id| *id == found.id);
    let rules: Vec<Rule> = app.rules.iter().filter(is_asked).cloned().collect();
    if rules.is_empty() {
        return Err(ApiError::NotFound(format!("there is no rule {:?}", rule.unwrap_or_default())));
    }
    let (rows, unchecked) =
        ask(&app, &asker.sight, move |reader| reader.check_environments(&rules, &filter)).await?;
    let Part(listed) = Part::of(rows, after.as_ref(), limit);
    Ok(json(listed.into_json(&[("unchecked", json!(unchecked))])))
}

/// The site's rules about environments.
#[utoipa::path(get, path = "/api/v1/env-check/rules", security(("token" = [])),
    responses((status = 200, body = Rows), (status = 401), (status = 403)))]
pub async fn env_rules(_: Asker, State(app): State<Arc<App>>) -> Json<Rows> {
    let row = |rule: &Rule| {
        let fields = [("rule", &rule.id), ("says", &rule.says), ("advice", &rule.advice)];
        fields.into_iter().map(|(name, text)| (name.to_owned(), Value::from(text.as_str()))).collect()
    };
    Json(Rows { rows: app.rules.iter().map(row).collect(), more: false, next: None })
}

/// Where a job is looked for.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Where {
    pub cluster: Option<String>,
}

/// Everything that ran in a job: processes with the place of their parent in the list, libraries, modules.
#[utoipa::path(get, path = "/api/v1/jobs/{id}", params(("id" = String, Path), Where), security(("token" = [])),
    responses((status = 200, body = Object), (status = 400), (status = 401), (status = 403), (status = 404)))]
pub async fn job(
    asker: Asker,
    State(app): State<Arc<App>>,
    id: Result<Path<String>, axum::extract::rejection::PathRejection>,
    query: Asked<Where>,
) -> Result<Json<Value>, ApiError> {
    let Path(id) = id.map_err(|error| ApiError::BadRequest(error.body_text()))?;
    let which = Which { cluster: asked(query)?.cluster, job: Some(id.clone()), ..Which::default() };
    let (filter, _) = which.filter(1)?;
    let filter = Filter { limit: None, ..filter };
    let now = now_ns();
    let found = ask(&app, &asker.sight, move |reader| reader.job(&filter, now)).await?;
    found.map(Json).ok_or_else(|| ApiError::NotFound(format!("nothing was seen of job {id}")))
}

fn now_ns() -> i64 {
    i64::try_from(Timestamp::now().as_nanosecond()).unwrap_or(i64::MAX)
}

/// Which nodes are asked for.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Nodes {
    host: Option<String>,
}

/// How the nodes fare that were read within the last day, by their last two readings.
#[utoipa::path(get, path = "/api/v1/nodes", params(Nodes), security(("token" = [])),
    responses((status = 200, body = Rows), (status = 400), (status = 401), (status = 403)))]
pub async fn nodes(
    Support(asker): Support,
    State(app): State<Arc<App>>,
    query: Asked<Nodes>,
) -> Result<Json<Rows>, ApiError> {
    let Nodes { host } = asked(query)?;
    let nodes = host.as_deref().map(named_nodes).transpose()?;
    let (which, now) = (nodes.clone(), now_ns());
    let rows = ask(&app, &asker.sight, move |reader| reader.nodes(which.as_ref(), now)).await?;
    if rows.is_empty() {
        check_known(&app, &asker, nodes).await?;
    }
    Ok(Rows::new(rows, u64::MAX))
}

/// The batch jobs that run now, by their last readings: what they use of what they reserved.
#[utoipa::path(get, path = "/api/v1/top", security(("token" = [])),
    responses((status = 200, body = Rows), (status = 401), (status = 403)))]
pub async fn top(asker: Asker, State(app): State<Arc<App>>) -> Result<Json<Rows>, ApiError> {
    let now = now_ns();
    Ok(Rows::new(ask(&app, &asker.sight, move |reader| reader.top(now)).await?, u64::MAX))
}

/// Which node a series is wanted of.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct OfNode {
    cluster: Option<String>,
    /// A host, or a node of the batch system.
    host: Option<String>,
    /// At most so many rows; all unless given, part by part.
    #[param(minimum = 1, maximum = 1_000_000)]
    limit: Option<u64>,
    /// Behind this place: the `next` of the answer before.
    after: Option<String>,
}

/// A metric of a job, of its nodes or of its GPUs over time: the value of a gauge, or the rate of a counter.
#[utoipa::path(get, path = "/api/v1/jobs/{id}/series/{metric}",
    params(("id" = String, Path), ("metric" = String, Path), OfNode), security(("token" = [])),
    responses((status = 200, body = Rows), (status = 400), (status = 401), (status = 403)))]
pub async fn series(
    asker: Asker,
    State(app): State<Arc<App>>,
    path: Result<Path<(String, String)>, axum::extract::rejection::PathRejection>,
    query: Asked<OfNode>,
) -> Result<Part, ApiError> {
    let Path((id, name)) = path.map_err(|error| ApiError::BadRequest(error.body_text()))?;
    check_text(&name)?;
    let OfNode { cluster, host, limit, after } = asked(query)?;
    let limit = limit.or(Some(LIMIT_MAX));
    let (filter, limit) =
        Which { cluster, host, job: Some(id), limit, after, ..Which::default() }.filter(1)?;
    let after = filter.after.clone();
    let before = after.as_ref().map_or(0, After::position);
    let now = now_ns();
    let metric = metric::by_name(&name);
    let rows = ask(&app, &asker.sight, move |reader| {
        let own = metric.map_or(Ok(Vec::new()), |metric| reader.series(&filter, metric, now))?;
        // Whoever has monitoring of his own may have no agent.
        let rows = if own.is_empty() { reader.measure_series(&filter, &name)? } else { own };
        let is_known = !rows.is_empty();
        let part = rows.into_iter().skip(before as usize).take(limit as usize + 1).collect();
        Ok((part, is_known, name))
    });
    let (rows, is_known, name) = rows.await?;
    if !is_known && metric.is_none() {
        let known: Vec<&str> = metric::METRICS.iter().map(|metric| metric.name).collect();
        return Err(ApiError::BadRequest(format!(
            "no metric `{name}`, and no other system measured it of this job; there are: {}",
            known.join(", ")
        )));
    }
    Ok(Part::of(rows, after.as_ref(), limit))
}

/// Hours or days.
#[derive(Debug, Clone, Copy, Default, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum PerTime {
    Hour,
    #[default]
    Day,
}

impl From<PerTime> for Per {
    fn from(per: PerTime) -> Self {
        match per {
            PerTime::Hour => Per::Hour,
            PerTime::Day => Per::Day,
        }
    }
}

/// Which short jobs are asked for.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ShortJobs {
    /// One row for the jobs of a user that began in the same hour or day (UTC).
    #[serde(default)]
    #[param(inline)]
    per: PerTime,
    cluster: Option<String>,
    user: Option<String>,
    /// Whatever ran at this time or later.
    #[param(value_type = Option<String>, format = DateTime)]
    since: Option<Timestamp>,
    /// Whatever ran before this time.
    #[param(value_type = Option<String>, format = DateTime)]
    until: Option<Timestamp>,
    /// At most so many rows; 1000 unless given.
    #[param(minimum = 1, maximum = 1_000_000)]
    limit: Option<u64>,
    /// Behind this place: the `next` of the answer before.
    after: Option<String>,
}

/// Batch jobs that have ended and were shorter than the site's `short_job_seconds`, rolled up by user and time; most jobs first.
#[utoipa::path(get, path = "/api/v1/short-jobs", params(ShortJobs), security(("token" = [])),
    responses((status = 200, body = Rows), (status = 400), (status = 401), (status = 403)))]
pub async fn short_jobs(
    asker: Asker,
    State(app): State<Arc<App>>,
    query: Asked<ShortJobs>,
) -> Result<Part, ApiError> {
    let ShortJobs { per, cluster, user, since, until, limit, after } = asked(query)?;
    let (filter, limit) =
        Which { cluster, user, since, until, limit, after, ..Which::default() }.filter(1)?;
    let after = filter.after.clone();
    let rows = ask(&app, &asker.sight, move |reader| reader.short_jobs(&filter, per.into())).await?;
    Ok(Part::of(rows, after.as_ref(), limit))
}

/// Who asks, as the token says: the user, the role, and what they see.
#[utoipa::path(get, path = "/api/v1/whoami", security(("token" = [])),
    responses((status = 200, body = Object), (status = 401), (status = 403)))]
pub async fn whoami(asker: Asker) -> Json<Value> {
    let projects = match &asker.sight {
        Sight::Own { projects, .. } => json!(projects),
        Sight::All | Sight::Administrator { .. } | Sight::Support { .. } => Value::Null,
    };
    Json(json!({"user": asker.name, "role": asker.role.name(), "sees_projects": projects}))
}

/// The description of the whole API.
#[derive(OpenApi)]
#[openapi(
    info(title = "Jobglass", description = "What ran on a cluster, and what it loaded."),
    paths(crate::ingest::ingest, crate::enroll::enroll, crate::account::account, crate::measure::measure, crate::site::tell, crate::site::site, crate::site::describe, crate::site::descriptions, crate::jobs::jobs, crate::jobs::columns, crate::jobs::export, crate::tags::list, crate::searches::list, crate::searches::save, crate::searches::forget, crate::own_tags::declare, crate::own_tags::retire, crate::tags::count, crate::tags::explain, crate::tags::trial, crate::tags::begin_run, crate::tags::last_run, crate::tags::software_tags, crate::tags::tag_software, crate::assign::assign, crate::opinions::opine, crate::opinions::opinions, crate::notes::notes, crate::notes::add_note, crate::notes::remove_note, crate::notes::cases, crate::notes::open_case, crate::notes::add_to_case, crate::proposals::proposals, crate::proposals::propose, crate::proposals::decide, processes, programs, libraries, modules, uses, job, series, nodes, top, short_jobs, env_check, env_rules, whoami,
        crate::wishes::rate, crate::wishes::set_rate, crate::wishes::remove_rate, crate::wishes::wishes),
    components(schemas(Rows, Checked, crate::wishes::NewRate, crate::notes::NewNote, crate::notes::NewCase, crate::notes::CaseNews, crate::proposals::NewProposal, crate::proposals::NewDecision, crate::searches::NewSearch, crate::own_tags::NewTag)),
    modifiers(&Tokens)
)]
pub struct Description;

struct Tokens;

impl utoipa::Modify for Tokens {
    fn modify(&self, description: &mut utoipa::openapi::OpenApi) {
        use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
        let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        if let Some(components) = &mut description.components {
            components.add_security_scheme("token", scheme);
        }
    }
}

/// The description itself.
pub async fn openapi() -> Json<utoipa::openapi::OpenApi> {
    Json(Description::openapi())
}
