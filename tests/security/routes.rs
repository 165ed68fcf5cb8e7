//! Paths that the routes have.

use clawgate::http::Place;

/// A path of this place; none where the configuration or the Control UI's files say
/// which there are.
pub fn path_of(place: Place) -> Option<String> {
    let path = match place {
        Place::Path(path)
        | Place::Api(path)
        | Place::Like(path)
        | Place::PagePath(path)
        | Place::UiPath(path) => path.to_owned(),
        Place::UiFolder(path) | Place::Folder(path) => format!("{path}x"),
        Place::Page => "/clawgate/".to_owned(),
        Place::Hooks | Place::Webhooks | Place::Ui => return None,
    };
    Some(path.replace(':', "x"))
}
