//! Notes on jobs and programs, and cases in which a user was contacted.
#![expect(unused_qualifications, reason = "in what utoipa's macros make")]

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, PathRejection};
use axum::extract::{Path, State};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use store::Listed;
use store::notes::{About, Contact};
use store::people::Role;
use store::query::notes::{self, Cases, Notes};
use utoipa::{IntoParams, ToSchema};

use crate::app::App;
use crate::asker::{Asker, Support};
use crate::assign::owned;
use crate::body;
use crate::error::ApiError;
use crate::read::{Asked, Part, Rows, asked, check_glob, check_long_text, check_text, limited};
use crate::readers::ask;
use crate::writing::write;

/// A request is a note, not a book.
pub const BODY_MAX: usize = 64 * 1024;
const TEXT_MAX: usize = 10_000;

/// Which part of a list whose rows have numbers, the highest first.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Numbered {
    /// At most so many rows; 1000 unless given.
    #[param(minimum = 1, maximum = 1_000_000)]
    limit: Option<u64>,
    /// Behind this place: the `next` of the answer before.
    after: Option<u64>,
}

impl Numbered {
    /// One row more than one answer has, to know whether there are more.
    pub fn part(&self) -> Result<(notes::Part, u64), ApiError> {
        let limit = limited(self.limit)?;
        if let Some(after) = self.after.filter(|after| i64::try_from(*after).is_err()) {
            return Err(ApiError::BadRequest(format!("after is {after}, not below 2^63")));
        }
        Ok((notes::Part { after: self.after, limit: Some(limit + 1) }, limit))
    }
}

/// Rows with their numbers.
pub fn numbered(rows: Vec<Map<String, Value>>, number: &str, limit: u64) -> Part {
    Part(Listed::of_numbered(rows, number, limit))
}

/// Which notes are asked for.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct WhichNotes {
    /// On this job.
    job: Option<String>,
    /// On this program.
    program: Option<String>,
    /// By this user.
    by: Option<String>,
    /// With these words in it.
    text: Option<String>,
    /// At most so many rows; 1000 unless given.
    #[param(minimum = 1, maximum = 1_000_000)]
    limit: Option<u64>,
    /// Behind this place: the `next` of the answer before.
    after: Option<u64>,
}

/// Notes, the newest first.
#[utoipa::path(get, path = "/api/v1/notes", params(WhichNotes), security(("token" = [])),
    responses((status = 200, body = Rows), (status = 400), (status = 401), (status = 403)))]
pub async fn notes(
    asker: Asker,
    State(app): State<Arc<App>>,
    query: Asked<WhichNotes>,
) -> Result<Part, ApiError> {
    let WhichNotes { job, program, by, text, limit, after } = asked(query)?;
    let (part, limit) = Numbered { limit, after }.part()?;
    [&job, &program, &by, &text].into_iter().flatten().try_for_each(|text| check_text(text))?;
    let which = Notes { number: None, job, program, by, text, part };
    let rows = ask(&app, &asker.sight, move |reader| reader.notes(&which)).await?;
    Ok(numbered(rows, "note", limit))
}

/// A note: either on a job or on a program.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewNote {
    job: Option<String>,
    cluster: Option<String>,
    /// Its path, or a pattern for it.
    program: Option<String>,
    #[schema(max_length = 10_000)]
    text: String,
}

/// Keeps a note on a job that whoever asks sees, or on a program.
#[utoipa::path(post, path = "/api/v1/notes", security(("token" = [])), request_body = NewNote,
    responses((status = 200, body = Object), (status = 400), (status = 401), (status = 403), (status = 404), (status = 409), (status = 413), (status = 503)))]
pub async fn add_note(
    asker: Asker,
    State(app): State<Arc<App>>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Value>, ApiError> {
    let NewNote { job, cluster, program, text } = parsed(body)?;
    check_long(&text)?;
    [&job, &cluster].into_iter().flatten().try_for_each(|text| check_text(text))?;
    program.as_deref().map_or(Ok(()), check_glob)?;
    let about = match (job, program) {
        (Some(job), None) => About::Job(owned(&app, &asker, &job, cluster).await?.id),
        (None, Some(program)) => About::Program(program),
        _ => return Err(ApiError::BadRequest("a note is either on a `job` or on a `program`".into())),
    };
    let by = asker.name.clone();
    let number = write(&app, &asker, move |writer| writer.add_note(&about, &text, &by)).await?;
    Ok(Json(json!({"note": number})))
}

/// Takes a note back, by whoever wrote it or an administrator.
#[utoipa::path(delete, path = "/api/v1/notes/{number}", params(("number" = u64, Path)), security(("token" = [])),
    responses((status = 200, body = Object), (status = 400), (status = 401), (status = 403), (status = 404), (status = 503)))]
pub async fn remove_note(
    asker: Asker,
    State(app): State<Arc<App>>,
    number: Result<Path<u64>, PathRejection>,
) -> Result<Json<Value>, ApiError> {
    let number = path_number(number)?;
    let which = Notes { number: Some(number), ..Notes::default() };
    let found = ask(&app, &asker.sight, move |reader| reader.notes(&which)).await?;
    let note = found.first().ok_or_else(|| ApiError::NotFound(format!("there is no note {number}")))?;
    if asker.role != Role::Administrator && note["by"] != asker.name.as_str() {
        return Err(ApiError::Forbidden(format!(
            "note {number} is {}'s",
            note["by"].as_str().unwrap_or_default()
        )));
    }
    let removed = write(&app, &asker, move |writer| writer.remove_note(number)).await?;
    Ok(Json(json!({"removed": removed})))
}

/// Which cases are asked for.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct WhichCases {
    /// The one with this number.
    #[param(value_type = Option<u64>, maximum = 4_294_967_295_u64)]
    number: Option<u32>,
    /// About this user.
    user: Option<String>,
    /// Because of this job.
    job: Option<String>,
    /// Opened by this user.
    by: Option<String>,
    /// With these words in the reason, the outcome or what happened since.
    text: Option<String>,
    /// Only those that are open, or only those that are closed.
    open: Option<bool>,
    /// At most so many rows; 1000 unless given.
    #[param(minimum = 1, maximum = 1_000_000)]
    limit: Option<u64>,
    /// Behind this place: the `next` of the answer before.
    after: Option<u64>,
}

/// Cases, the newest first.
#[utoipa::path(get, path = "/api/v1/cases", params(WhichCases), security(("token" = [])),
    responses((status = 200, body = Rows), (status = 400), (status = 401), (status = 403)))]
pub async fn cases(
    asker: Asker,
    State(app): State<Arc<App>>,
    query: Asked<WhichCases>,
) -> Result<Part, ApiError> {
    let WhichCases { number, user, job, by, text, open, limit, after } = asked(query)?;
    let (part, limit) = Numbered { limit, after }.part()?;
    [&user, &job, &by, &text].into_iter().flatten().try_for_each(|text| check_text(text))?;
    let number = number.map(u64::from);
    let which = Cases { number, user, job, by, text, is_open: open, part };
    let rows = ask(&app, &asker.sight, move |reader| reader.cases(&which)).await?;
    Ok(numbered(rows, "case", limit))
}

/// A case: a user, or the owner of a job.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewCase {
    user: Option<String>,
    job: Option<String>,
    cluster: Option<String>,
    #[schema(max_length = 10_000)]
    reason: String,
}

/// Opens a case: somebody is contacted. For support and administrators.
#[utoipa::path(post, path = "/api/v1/cases", security(("token" = [])), request_body = NewCase,
    responses((status = 200, body = Object), (status = 400), (status = 401), (status = 403), (status = 404), (status = 409), (status = 413), (status = 503)))]
pub async fn open_case(
    Support(asker): Support,
    State(app): State<Arc<App>>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Value>, ApiError> {
    let NewCase { user, job, cluster, reason } = parsed(body)?;
    check_long(&reason)?;
    [&user, &job, &cluster].into_iter().flatten().try_for_each(|text| check_text(text))?;
    let owned = match job {
        Some(job) => Some(owned(&app, &asker, &job, cluster).await?),
        None => None,
    };
    let job = owned.as_ref().map(|owned| owned.id);
    let user = user.or_else(|| owned.and_then(|owned| owned.user));
    let user =
        user.ok_or_else(|| ApiError::BadRequest("a case is about a `user`, or the owner of a `job`".into()))?;
    let (contact, by) = (Contact { user, job, reason }, asker.name.clone());
    let number = write(&app, &asker, move |writer| writer.open_case(&contact, &by)).await?;
    Ok(Json(json!({"case": number})))
}

/// What happened in a case, or how it ended.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CaseNews {
    #[schema(max_length = 10_000)]
    text: String,
    /// It is closed with this as its outcome.
    #[serde(default)]
    close: bool,
}

/// Adds to a case, or closes it. For support and administrators.
#[utoipa::path(post, path = "/api/v1/cases/{number}", params(("number" = u64, Path)), security(("token" = [])), request_body = CaseNews,
    responses((status = 200, body = Object), (status = 400), (status = 401), (status = 403), (status = 404), (status = 409), (status = 413), (status = 503)))]
pub async fn add_to_case(
    Support(asker): Support,
    State(app): State<Arc<App>>,
    number: Result<Path<u64>, PathRejection>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Value>, ApiError> {
    let number = path_number(number)?;
    let CaseNews { text, close } = parsed(body)?;
    check_long(&text)?;
    let by = asker.name.clone();
    let done = write(&app, &asker, move |writer| match close {
        true => writer.close_case(number, &text, &by),
        false => writer.add_to_case(number, &text, &by),
    });
    match done.await? {
        true => Ok(Json(json!({"case": number, "is_open": !close}))),
        false => Err(ApiError::NotFound(format!("there is no case {number} that is open"))),
    }
}

pub fn parsed<T: DeserializeOwned>(body: Result<Bytes, BytesRejection>) -> Result<T, ApiError> {
    serde_json::from_slice(&body::small(body, BODY_MAX)?)
        .map_err(|error| ApiError::BadRequest(format!("not as it should be: {error}")))
}

pub fn check_long(text: &str) -> Result<(), ApiError> {
    check_long_text(text)?;
    match text.trim().len() {
        0 => Err(ApiError::BadRequest("there is no text".into())),
        length if length > TEXT_MAX => {
            Err(ApiError::BadRequest(format!("the text is longer than {TEXT_MAX} bytes")))
        }
        _ => Ok(()),
    }
}

pub fn path_number(number: Result<Path<u64>, PathRejection>) -> Result<u64, ApiError> {
    number.map(|Path(number)| number).map_err(|error| ApiError::BadRequest(error.body_text()))
}
