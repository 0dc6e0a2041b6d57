//! Takes jobs as their batch system accounts for them: `POST /api/v1/accounting`, from whoever imports them.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use minicbor::Decoder;
use record::accounting::{Accounting, JOBS_MAX};
use serde_json::{Value, json};
use store::{Accounted, Accounts, TOGETHER};

use crate::app::App;
use crate::asker::Admin;
use crate::body::{self, Received};
use crate::error::ApiError;

/// Keeps jobs as their batch system accounts for them. Told again, or in another order, they are kept the same: each once, by
/// cluster, number and time of submission. The body is a CBOR array of jobs, at most 10,000. The answer comes when they are durable. An
/// empty array says that no more are coming: tag rules are evaluated at once for those that came.
#[utoipa::path(post, path = "/api/v1/accounting", security(("token" = [])),
    request_body(content = Vec<u8>, content_type = "application/cbor"),
    responses((status = 200, body = Object), (status = 400), (status = 401), (status = 403), (status = 413), (status = 503)))]
pub async fn account(_: Admin, State(app): State<Arc<App>>, body: Body) -> Result<Json<Value>, ApiError> {
    let Received { bytes, room } = body::read(body, app.limits, &app.bodies.of_importers).await?;
    let kept = tokio::task::spawn_blocking(move || keep(&app, bytes)).await;
    drop(room);
    let kept = kept.map_err(|_| ApiError::Internal("the jobs could not be stored"))??;
    Ok(Json(json!({"new": kept.new, "replaced": kept.replaced, "older": kept.older})))
}

/// Not to be called where nothing may wait.
fn keep(app: &App, body: impl AsRef<[u8]>) -> Result<Accounted, ApiError> {
    let accounts = accounts(body.as_ref())?;
    if accounts.is_empty() {
        app.committer.import_is_done();
        return Ok(Accounted::default());
    }
    // It would be there until the rows are durable.
    drop(body);
    app.committer.check_disk()?;
    Ok(app.committer.take(move |writer| writer.account(&accounts))??)
}

fn accounts(body: &[u8]) -> Result<Accounts, ApiError> {
    match Accounts::of_parts(Parts::of(body)?)? {
        Some(accounts) => Ok(accounts),
        // A job is told twice.
        None => {
            let parts = Parts::of(body)?.collect::<Result<Vec<_>, _>>()?;
            Ok(Accounts::of(&parts.concat())?)
        }
    }
}

/// The jobs of a request, some at a time.
struct Parts<'a> {
    decoder: Decoder<'a>,
    body: &'a [u8],
    count: u64,
    /// So many have come.
    taken: u64,
}

impl<'a> Parts<'a> {
    fn of(body: &'a [u8]) -> Result<Parts<'a>, ApiError> {
        let mut decoder = Decoder::new(body);
        let count = decoder.array().map_err(|error| bad(format!("no array of jobs: {error}")))?;
        let count = count.ok_or_else(|| bad("an array of jobs says how many there are".into()))?;
        if count > JOBS_MAX {
            return Err(bad(format!("{count} jobs in a request, at most {JOBS_MAX} are taken")));
        }
        let parts = Parts { decoder, body, count, taken: 0 };
        if count == 0 { parts.check_end().map(|()| parts) } else { Ok(parts) }
    }

    fn part(&mut self) -> Result<Vec<Accounting>, ApiError> {
        let mut jobs = Vec::with_capacity(TOGETHER);
        while self.taken < self.count && jobs.len() < TOGETHER {
            self.taken += 1;
            let number = self.taken;
            let job = self.decoder.decode().map_err(|error| bad(format!("job {number}: {error}")))?;
            jobs.push(checked(job, number)?);
        }
        if self.taken == self.count {
            self.check_end()?;
        }
        Ok(jobs)
    }

    fn check_end(&self) -> Result<(), ApiError> {
        match self.body.len() - self.decoder.position() {
            0 => Ok(()),
            left => Err(bad(format!("{left} bytes behind the last job"))),
        }
    }
}

impl Iterator for Parts<'_> {
    type Item = Result<Vec<Accounting>, ApiError>;

    fn next(&mut self) -> Option<Self::Item> {
        (self.taken < self.count).then(|| self.part().inspect_err(|_| self.count = self.taken))
    }
}

fn checked(job: Accounting, number: u64) -> Result<Accounting, ApiError> {
    if job.times().all(|time| i64::try_from(time).is_ok()) {
        return Ok(job);
    }
    Err(bad(format!("job {number}, {}: a time is out of range", job.shown)))
}

fn bad(what: String) -> ApiError {
    ApiError::BadRequest(what)
}
