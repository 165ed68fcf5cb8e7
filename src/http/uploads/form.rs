//! A file in a form: `multipart/form-data` (RFC 7578), as `curl -F` and web pages
//! send it.
//!
//! Promises: as little of it is in memory as of any other body.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use axum::body::Bytes;
use futures_util::{Stream, StreamExt, stream};
use multer::{Field, Multipart};

/// What stands before the file, or behind it: heads of its fields, and fields that are no
/// file.
pub(super) const AROUND_MAX: u64 = 64 * 1024;

/// The fields of a form.
pub(super) struct Form {
    fields: Multipart<'static>,
    /// Whether what comes now is the file.
    is_file: Arc<AtomicBool>,
}

/// The file of a form.
pub(super) struct FormFile {
    /// What it is called.
    pub name: Option<String>,
    /// What it is said to be.
    pub kind: String,
    /// Its bytes.
    pub bytes: Field<'static>,
}

#[derive(Debug, thiserror::Error)]
enum FormError {
    #[error("more than {AROUND_MAX} bytes stand around the file")]
    Around,
    #[error("{0}")]
    Body(String),
}

impl Form {
    /// The form that a body is of this type; none when it is of another type.
    ///
    /// # Errors
    /// When it has no boundary.
    pub fn of<E: std::fmt::Display + 'static>(
        content_type: &str,
        body: impl Stream<Item = Result<Bytes, E>> + Unpin + Send + 'static,
    ) -> Result<Self, String> {
        let boundary = multer::parse_boundary(content_type).map_err(|error| error.to_string())?;
        let is_file = Arc::new(AtomicBool::new(false));
        let body = one_by_one(body, Arc::clone(&is_file));
        Ok(Self { fields: Multipart::new(body, boundary), is_file })
    }

    /// Its file: the first field that has a name of a file, or is called `file`.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn file(&mut self) -> Result<Option<FormFile>, String> {
        while let Some(field) = self.next().await? {
            if !is_file(&field) {
                continue;
            }
            let name = field.file_name().map(str::to_owned);
            let kind = field.content_type().map(ToString::to_string).unwrap_or_default();
            self.is_file.store(true, Ordering::Relaxed);
            return Ok(Some(FormFile { name, kind, bytes: field }));
        }
        Ok(None)
    }

    /// Whether it ends after its file as it should.
    ///
    /// # Errors
    /// When it cannot be read, or there is another file.
    pub async fn end(&mut self) -> Result<(), String> {
        self.is_file.store(false, Ordering::Relaxed);
        while let Some(field) = self.next().await? {
            if is_file(&field) {
                return Err("one file at a time".into());
            }
        }
        Ok(())
    }

    async fn next(&mut self) -> Result<Option<Field<'static>>, String> {
        self.fields.next_field().await.map_err(|error| error.to_string())
    }
}

fn is_file(field: &Field<'_>) -> bool {
    field.file_name().is_some() || field.name() == Some("file")
}

/// The chunks of a body, of which each is asked for twice: the reader of forms takes
/// whatever is ready into its memory. What is no file has a bound of its own.
fn one_by_one<E: std::fmt::Display>(
    mut body: impl Stream<Item = Result<Bytes, E>> + Unpin,
    is_file: Arc<AtomicBool>,
) -> impl Stream<Item = Result<Bytes, Box<dyn std::error::Error + Send + Sync>>> {
    let (mut was_ready, mut around) = (false, 0);
    stream::poll_fn(move |cx| {
        if std::mem::take(&mut was_ready) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if is_file.load(Ordering::Relaxed) {
            // The beginning of the file may have come with its head.
            around = 0;
        } else if around > AROUND_MAX {
            return Poll::Ready(Some(Err(FormError::Around.into())));
        }
        let polled = body.poll_next_unpin(cx);
        if let Poll::Ready(Some(Ok(chunk))) = &polled {
            was_ready = true;
            if !is_file.load(Ordering::Relaxed) {
                around += u64::try_from(chunk.len()).unwrap_or(u64::MAX);
            }
        }
        let told = |error: E| FormError::Body(error.to_string()).into();
        polled.map(|next| next.map(|chunk| chunk.map_err(told)))
    })
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    const KIND: &str = "multipart/form-data; boundary=x";

    fn form(chunks: Vec<Vec<u8>>, taken: &Arc<AtomicUsize>) -> Form {
        let taken = Arc::clone(taken);
        let chunks = chunks.into_iter().map(Bytes::from).map(Ok::<_, Infallible>);
        let chunks = stream::iter(chunks).inspect(move |_| {
            taken.fetch_add(1, Ordering::Relaxed);
        });
        Form::of(KIND, chunks).unwrap()
    }

    fn head(name: &str, file: Option<&str>) -> Vec<u8> {
        let file = file.map(|file| format!("; filename=\"{file}\"\r\nContent-Type: image/png"));
        let file = file.unwrap_or_default();
        format!("--x\r\nContent-Disposition: form-data; name=\"{name}\"{file}\r\n\r\n").into_bytes()
    }

    #[tokio::test]
    async fn the_file_of_a_form_comes_as_it_is_asked_for() {
        let end = b"\r\n--x--\r\n".to_vec();
        let mut chunks = vec![head("note", None), b"hello\r\n".to_vec(), head("a", Some("b.png"))];
        chunks.extend((0..500).map(|_| vec![b'y'; 10_000]));
        chunks.push(end);
        let taken = Arc::default();
        let mut form = form(chunks, &taken);
        let mut file = form.file().await.unwrap().unwrap();
        assert_eq!((file.name.as_deref(), &*file.kind), (Some("b.png"), "image/png"));
        let (mut read, mut most) = (0, 0);
        while let Some(bytes) = file.bytes.next().await {
            read += bytes.unwrap().len();
            most = most.max((taken.load(Ordering::Relaxed) * 10_000).saturating_sub(read));
        }
        assert_eq!(read, 5_000_000);
        assert!(most < 100_000, "{most} bytes in memory");
        drop(file);
        form.end().await.unwrap();
    }

    #[tokio::test]
    async fn what_of_a_file_comes_with_its_head_does_not_count_as_what_stands_around_it() {
        let mut chunks = vec![[head("a", Some("b.png")), vec![b'y'; 100_000]].concat()];
        chunks.push([b"\r\n".to_vec(), head("note", None)].concat());
        chunks.extend((0..50).map(|_| b"hello".to_vec()));
        chunks.push(b"\r\n--x--\r\n".to_vec());
        let mut form = form(chunks, &Arc::default());
        let mut file = form.file().await.unwrap().unwrap();
        let mut read = 0;
        while let Some(bytes) = file.bytes.next().await {
            read += bytes.unwrap().len();
        }
        drop(file);
        assert_eq!(read, 100_000);
        form.end().await.unwrap();
    }

    #[tokio::test]
    async fn what_is_no_file_has_a_bound_and_a_second_file_is_refused() {
        let taken = Arc::default();
        let mut long = form(vec![vec![b'y'; 50_000]; 100], &taken);
        assert!(long.file().await.is_err());
        assert!(taken.load(Ordering::Relaxed) < 4);

        let file = |name| [head(name, Some("b.png")), b"1\r\n".to_vec()].concat();
        let mut two = form(vec![file("a"), file("b"), b"--x--\r\n".to_vec()], &taken);
        let mut first = two.file().await.unwrap().unwrap();
        while first.bytes.next().await.is_some() {}
        drop(first);
        assert_eq!(two.end().await.unwrap_err(), "one file at a time");

        let mut cut = form(vec![file("a")], &taken);
        let mut first = cut.file().await.unwrap().unwrap();
        // After an error it would tell of nothing but errors.
        let is_broken = loop {
            match first.bytes.next().await {
                Some(Ok(_)) => {}
                told => break matches!(told, Some(Err(_))),
            }
        };
        assert!(is_broken, "its end is missing");
        let mut none = form(vec![head("a", None), b"1\r\n--x--\r\n".to_vec()], &taken);
        assert!(none.file().await.unwrap().is_none());
    }
}
