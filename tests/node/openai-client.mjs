// The official client of OpenAI for Node, against a gateway that offers its API.
// Arguments: base URL, token. Ends with "all is well", or with what is wrong.
import assert from "node:assert/strict";
import OpenAI from "openai";

const [baseURL, apiKey] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
const says = (content) => [{ role: "user", content }];
const add = { name: "add", parameters: { type: "object", properties: { a: { type: "number" } } } };

const names = [];
for await (const model of client.models.list()) names.push(model.id);
assert.deepEqual(names.slice(0, 2), ["openclaw", "openclaw/default"]);
assert.equal((await client.models.retrieve("openclaw/ops")).id, "openclaw/ops");

const whole = await client.chat.completions.create({
  model: "openclaw/ops",
  messages: says('@mock text text="hello"'),
});
assert.equal(whole.choices[0].message.content, "hello");

let text = "";
const stream = await client.chat.completions.create({
  model: "openclaw",
  messages: says("@mock stream n=5 delay=5"),
  stream: true,
});
for await (const piece of stream) text += piece.choices[0]?.delta?.content ?? "";
assert.equal(text, "w1 w2 w3 w4 w5");

// Its loop calls the function, sends the result and gets the answer.
const called = [];
const runner = client.chat.completions.runTools({
  model: "openclaw",
  messages: says('@mock tool name=add args={"a":1} then="never"'),
  tools: [
    {
      type: "function",
      function: {
        ...add,
        parse: JSON.parse,
        function: (given) => {
          called.push(given);
          return '3 @mock text text="three"';
        },
      },
    },
  ],
});
assert.equal(await runner.finalContent(), "three");
assert.deepEqual(called, [{ a: 1 }]);

const first = await client.responses.create({ model: "openclaw", input: '@mock text text="one"' });
assert.equal(first.output_text, "one");
const made = await client.responses
  .stream({ model: "openclaw", input: "@mock stream n=3 delay=5", previous_response_id: first.id })
  .finalResponse();
assert.equal(made.output_text, "w1 w2 w3");

await assert.rejects(
  client.chat.completions.create({ model: "gpt-4", messages: says("x") }),
  OpenAI.BadRequestError,
);
console.log("all is well");
