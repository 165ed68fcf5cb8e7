// A page that uses the API of a gateway that does not serve it.
//
// args: {page, gateway, token}
//   page     where the page is
//   gateway  origin of the gateway
//   token    what it shows
// Returns {models, whole, stream, wrong, changed}: what it reads of the list of
// models, of an answer in one piece, of one as it comes, of a refusal, and of a
// method that only preflights allow; each {failed} where it may not.
export default async function ({ page, args }) {
  await page.goto(args.page);
  return page.evaluate(visit, args);
}

// Runs in the page, so it can use nothing from outside of it.
async function visit({ gateway, token }) {
  const headers = {
    authorization: `Bearer ${token}`,
    "content-type": "application/json",
    "x-openclaw-session-key": "from-a-page",
  };
  const ask = (text, stream) =>
    fetch(`${gateway}/v1/chat/completions`, {
      method: "POST",
      headers,
      body: JSON.stringify({
        model: "openclaw", stream, messages: [{ role: "user", content: text }],
      }),
    });
  const told = async (work) => {
    try {
      return await work();
    } catch (error) {
      return { failed: error.name };
    }
  };

  const models = await told(async () => {
    const response = await fetch(`${gateway}/v1/models`, { headers });
    const first = (await response.json()).data[0].id;
    const requestId = response.headers.get("x-request-id");
    return { status: response.status, first, requestId };
  });
  const whole = await told(async () => {
    const response = await ask('@mock text text="hello"', false);
    return { text: (await response.json()).choices[0].message.content };
  });
  const stream = await told(async () => {
    const response = await ask('@mock text text="one two three" n=4 delay=100', true);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let [lines, reads] = ["", 0];
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      lines += value;
      reads += 1;
    }
    const data = lines.split("\n").filter((line) => line.startsWith("data: "));
    const isDone = data.at(-1) === "data: [DONE]";
    const pieces = data.filter((line) => line !== "data: [DONE]");
    const piece = (line) => JSON.parse(line.slice(6)).choices[0]?.delta?.content ?? "";
    return { text: pieces.map(piece).join(""), isDone, reads };
  });
  const wrong = await told(async () => {
    const response = await fetch(`${gateway}/v1/models`, {
      headers: { authorization: "Bearer wrong" },
    });
    return { status: response.status, type: (await response.json()).error.type };
  });
  const changed = await told(async () => {
    const url = `${gateway}/api/sessions/policy`;
    const response = await fetch(url, { headers: { ...headers, "idempotency-key": "1" } });
    return { status: response.status };
  });
  return { models, whole, stream, wrong, changed };
}
