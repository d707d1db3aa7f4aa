//! Responses of an agent: a result or an error, with the identifier of the request.

use serde::{Deserialize, Serialize};

use crate::errors::ErrorObject;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Outcome<T> {
    Result(T),
    Error(ErrorObject),
}

/// A response in its wire format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Response<T> {
    jsonrpc: String,
    /// The identifier of the request; `null` if it could not be read.
    pub id: Option<i64>,
    #[serde(flatten)]
    outcome: Outcome<T>,
}

impl<T> Response<T> {
    /// Create the response to request `id`.
    pub fn new(id: Option<i64>, outcome: Result<T, ErrorObject>) -> Self {
        let outcome = match outcome {
            Ok(result) => Outcome::Result(result),
            Err(error) => Outcome::Error(error),
        };
        Self { jsonrpc: "2.0".to_owned(), id, outcome }
    }

    /// Return the outcome of the request.
    pub fn outcome(&self) -> Result<&T, &ErrorObject> {
        match &self.outcome {
            Outcome::Result(result) => Ok(result),
            Outcome::Error(error) => Err(error),
        }
    }
}
