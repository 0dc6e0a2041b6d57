//! Tags that people propose, and what administrators decide about them.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, PathRejection};
use axum::extract::{Path, State};
use condition::Condition;
use serde::Deserialize;
use serde_json::{Value, json};
use store::jobs::FIXED;
use store::tags::{Decision, Declared, Proposed};
use tags::Name;
use utoipa::ToSchema;

use crate::app::App;
use crate::asker::{Admin, Asker};
use crate::error::ApiError;
use crate::notes::{Numbered, check_long, numbered, parsed, path_number};
use crate::read::{Asked, Part, Rows, asked, check_long_text};
use crate::readers::ask;
use crate::writing::write;

/// Proposals, the newest first: one's own, and all for administrators.
#[utoipa::path(get, path = "/api/v1/proposals", params(Numbered), security(("token" = [])),
    responses((status = 200, body = Rows), (status = 400), (status = 401), (status = 403)))]
pub async fn proposals(
    asker: Asker,
    State(app): State<Arc<App>>,
    query: Asked<Numbered>,
) -> Result<Part, ApiError> {
    let (part, limit) = asked(query)?.part()?;
    let rows = ask(&app, &asker.sight, move |reader| reader.proposals(&part)).await?;
    Ok(numbered(rows, "proposal", limit))
}

/// A tag that somebody wishes to have.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewProposal {
    name: String,
    /// What it says of a job, in full sentences.
    description: String,
    /// Why it should be there.
    motivation: String,
    /// A condition over the columns of jobs; without one, people set the tag.
    criterion: Option<String>,
}

/// Proposes a tag.
#[utoipa::path(post, path = "/api/v1/proposals", security(("token" = [])), request_body = NewProposal,
    responses((status = 200, body = Object), (status = 400), (status = 401), (status = 403), (status = 409), (status = 413), (status = 503)))]
pub async fn propose(
    asker: Asker,
    State(app): State<Arc<App>>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Value>, ApiError> {
    let NewProposal { name, description, motivation, criterion } = parsed(body)?;
    check_name(&name, &app.readers.tags(&asker.sight))?;
    [&description, &motivation].into_iter().try_for_each(|text| check_long(text))?;
    check_criterion(criterion.as_deref())?;
    let (proposed, by) = (Proposed { name, description, criterion }, asker.name.clone());
    let number = write(&app, &asker, move |writer| writer.propose(&proposed, &motivation, &by)).await?;
    Ok(Json(json!({"proposal": number})))
}

/// What is decided about a proposal.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewDecision {
    approve: bool,
    /// Why; needed where it is rejected.
    reason: Option<String>,
    /// Other words than were proposed.
    name: Option<String>,
    description: Option<String>,
    criterion: Option<String>,
}

/// Approves a proposal, as it is or edited, or rejects it with a reason. The tag is there at once.
#[utoipa::path(post, path = "/api/v1/proposals/{number}", params(("number" = u64, Path)), security(("token" = [])), request_body = NewDecision,
    responses((status = 200, body = Object), (status = 400), (status = 401), (status = 403), (status = 404), (status = 409), (status = 413), (status = 503)))]
pub async fn decide(
    Admin(asker): Admin,
    State(app): State<Arc<App>>,
    number: Result<Path<u64>, PathRejection>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Value>, ApiError> {
    let number = path_number(number)?;
    let NewDecision { approve, reason, name, description, criterion } = parsed(body)?;
    [&reason, &description].into_iter().flatten().try_for_each(|text| check_long(text))?;
    name.as_deref().map_or(Ok(()), |name| check_name(name, &app.readers.tags(&asker.sight)))?;
    check_criterion(criterion.as_deref())?;
    if !approve && reason.is_none() {
        return Err(ApiError::BadRequest("whoever proposed it wants to know the `reason`".into()));
    }
    let decision =
        if approve { Decision::Approved { name, description, criterion } } else { Decision::Rejected };
    let by = asker.name.clone();
    let decided =
        write(&app, &asker, move |writer| writer.decide_proposal(number, &decision, &by, reason.as_deref()));
    match decided.await? {
        true => Ok(Json(json!({"proposal": number, "state": if approve { "approved" } else { "rejected" }}))),
        false => Err(ApiError::NotFound(format!("there is no proposal {number} that waits for a decision"))),
    }
}

pub fn check_name(name: &str, declared: &Declared) -> Result<(), ApiError> {
    let name = Name::try_from(name.to_owned()).map_err(|error| ApiError::BadRequest(error.to_string()))?;
    match declared.named(name.as_str()) {
        None => Ok(()),
        Some(known) => {
            Err(ApiError::BadRequest(format!("there is a tag `{}` already", known.tag.declared.name)))
        }
    }
}

fn check_criterion(text: Option<&str>) -> Result<(), ApiError> {
    let Some(text) = text else { return Ok(()) };
    check_long_text(text)?;
    Condition::asked(text, &FIXED.catalogue)
        .map(drop)
        .map_err(|error| ApiError::BadRequest(error.to_string()))
}
