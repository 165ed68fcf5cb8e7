use super::*;

const ARTICLE: &str = "<html><head><title>Of whales</title><script>var x = 'script text';</script>\
</head><body><nav><a href='/'>Menu of the site</a></nav><article><h1>Of whales</h1>\
<p>Whales are <b>large</b>, they sing, and they <a href='/travel'>travel far</a> every year.</p>\
<ul><li>first</li><li>second</li></ul><pre><code>let a = 1;\nlet b = 2;</code></pre>\
<p>There is more to say of them, and much of it, in fact most of it, is in other articles.</p>\
</article><footer>Imprint</footer></body></html>";

fn read(html: &str, mode: ExtractMode) -> Result<Extracted, FetchError> {
    extract(html, "https://sea.example/a/b", mode, true)
}

#[test]
fn an_article_becomes_markdown_or_text() {
    let markdown = read(ARTICLE, ExtractMode::Markdown).unwrap();
    assert_eq!((markdown.title.as_deref(), markdown.by), (Some("Of whales"), "readability"));
    for part in ["**large**", "[travel far](https://sea.example/travel)", "- first", "```"] {
        assert!(markdown.text.contains(part), "{part} not in {}", markdown.text);
    }
    let text = read(ARTICLE, ExtractMode::Text).unwrap().text;
    assert!(text.contains("Whales are large, they sing") && !text.contains("**"), "{text}");
    for part in ["script text", "Menu of the site", "<p>"] {
        assert!(!markdown.text.contains(part) && !text.contains(part), "{part}");
    }
}

#[test]
fn a_page_without_an_article_is_read_as_a_whole() {
    let page = "<title>T</title><style>x{}</style><script>alert(1)</script><b>just this</b>";
    let whole = extract(page, "https://x.example/", ExtractMode::Markdown, false).unwrap();
    assert_eq!((whole.title.as_deref(), whole.by), (Some("T"), "html"));
    assert!(whole.text.contains("**just this**") && !whole.text.contains("alert"), "{whole:?}");
    assert_eq!(read("", ExtractMode::Text).unwrap().text, "");
}

#[test]
fn a_page_that_is_made_to_hurt_does_not() {
    for deep in ["<div>", "<b><i><a href=x>", "<table><tr><td>", "<ul><li>"] {
        let page = deep.repeat(1000) + "text";
        let error = read(&page, ExtractMode::Markdown).unwrap_err().to_string();
        assert!(error.contains("nested too deep"), "{deep}: {error}");
    }
    let wide = read(&"<p>word, word</p>".repeat(MAX_ELEMENTS * 2), ExtractMode::Text).unwrap();
    assert!(wide.is_cut && wide.text.contains("word, word"));
    for odd in ["<", "<a", "\0\u{fffd}", "<!--", "<![CDATA[", "&#x110000;", "<svg><style><a>"] {
        assert!(read(odd, ExtractMode::Markdown).is_ok(), "{odd}");
    }
}
