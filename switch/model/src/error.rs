//! Bad input, named.

/// Input that has no meaning.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ModelError {
    /// A quantity outside its range.
    #[error("{argument} is {value}; it must be {range}")]
    Range {
        /// What was given.
        argument: &'static str,
        /// Its value as text.
        value: String,
        /// What it may be.
        range: &'static str,
    },
    /// A text that cannot be read: a law, a line of samples, a recording.
    #[error("{what} {text:?} {problem}; {remedy}")]
    Text {
        /// What it should be.
        what: &'static str,
        /// The text, or its beginning.
        text: String,
        /// What is wrong with it.
        problem: String,
        /// What to write or do instead.
        remedy: String,
    },
}

impl ModelError {
    pub(crate) fn range(argument: &'static str, value: impl ToString, range: &'static str) -> Self {
        Self::Range { argument, value: value.to_string(), range }
    }

    pub(crate) fn text(
        what: &'static str,
        text: &str,
        problem: impl ToString,
        remedy: impl ToString,
    ) -> Self {
        let text = text.chars().take(80).collect();
        Self::Text { what, text, problem: problem.to_string(), remedy: remedy.to_string() }
    }
}

/// `value`, where it is a finite number above 0.
pub(crate) fn positive(argument: &'static str, value: f64) -> Result<f64, ModelError> {
    if value > 0.0 && value.is_finite() {
        Ok(value)
    } else {
        Err(ModelError::range(argument, short(value), "a finite number above 0"))
    }
}

/// `value`, where it is a finite number of at least 0.
pub(crate) fn not_negative(argument: &'static str, value: f64) -> Result<f64, ModelError> {
    if value >= 0.0 && value.is_finite() {
        Ok(value)
    } else {
        Err(ModelError::range(argument, short(value), "a finite number, 0 or above"))
    }
}

/// `value`, where it is a probability above 0.
pub(crate) fn share(argument: &'static str, value: f64) -> Result<f64, ModelError> {
    if value > 0.0 && value <= 1.0 {
        Ok(value)
    } else {
        Err(ModelError::range(argument, short(value), "above 0 and at most 1"))
    }
}

/// A number with an exponent where its digits would fill lines.
pub(crate) fn short(value: f64) -> String {
    if value == 0.0 || (1e-6..1e9).contains(&value.abs()) { value.to_string() } else { format!("{value:e}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_in_few_digits() {
        assert_eq!([0.0, 0.7, -12.5, 1e308, 1e-300].map(short), ["0", "0.7", "-12.5", "1e308", "1e-300"]);
        assert_eq!(
            positive("delta", f64::INFINITY).unwrap_err().to_string(),
            "delta is inf; it must be a finite number above 0"
        );
        assert!(share("p", 1e300).unwrap_err().to_string().starts_with("p is 1e300; "));
    }
}
