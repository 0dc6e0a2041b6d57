//! Who asks: a token leads to a person, and the person to a role and to what they may see.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use jiff::Timestamp;
use store::people::Role;
use store::sight::Sight;

use crate::app::App;
use crate::error::ApiError;
use crate::tokens::Grant;

/// Whoever may ask.
#[derive(Debug, Clone)]
pub struct Asker {
    /// The user's name; `admin` is the machine's own token.
    pub name: String,
    pub role: Role,
    pub sight: Sight,
}

impl Asker {
    /// By the headers of a request.
    pub fn check(app: &App, headers: &HeaderMap) -> Result<Asker, ApiError> {
        let header = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = app.tokens.check(header, Timestamp::now())?;
        match token.grant {
            Grant::Admin => Ok(Asker {
                sight: Sight::Administrator { user: token.id.clone() },
                name: token.id,
                role: Role::Administrator,
            }),
            Grant::User { user } => {
                let people = app.readers.people();
                Ok(Asker { role: people.role(&user), sight: people.sight(&user), name: user })
            }
            Grant::Ingest | Grant::Node { .. } => {
                Err(ApiError::Forbidden("this token may send, not read: use your own".into()))
            }
            Grant::Enroll { .. } => Err(ApiError::Forbidden(
                "this token enrolls agents and does nothing else: use your own".into(),
            )),
        }
    }

    fn at_least(self, role: Role) -> Result<Asker, ApiError> {
        if self.role >= role {
            return Ok(self);
        }
        Err(ApiError::Forbidden(format!(
            "{} is {}, and this needs {}",
            self.name,
            self.role.name(),
            role.name()
        )))
    }
}

impl FromRequestParts<Arc<App>> for Asker {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, ApiError> {
        Asker::check(app, &parts.headers)
    }
}

/// Proof that somebody asks who sees all jobs.
pub struct Support(pub Asker);

impl FromRequestParts<Arc<App>> for Support {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, ApiError> {
        Ok(Support(Asker::check(app, &parts.headers)?.at_least(Role::Support)?))
    }
}

/// Proof that an administrator asks.
pub struct Admin(pub Asker);

impl FromRequestParts<Arc<App>> for Admin {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, ApiError> {
        Ok(Admin(Asker::check(app, &parts.headers)?.at_least(Role::Administrator)?))
    }
}
