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

// A call of a function comes in a stream, too, and its result goes on with it.
const tools = [{ type: "function", ...add, strict: false }];
const wanted = await client.responses
  .stream({ model: "openclaw", input: '@mock tool name=add args={"a":1} then="never"', tools })
  .finalResponse();
const call = wanted.output.find((item) => item.type === "function_call");
assert.deepEqual([call.name, JSON.parse(call.arguments)], ["add", { a: 1 }]);
const told = await client.responses.create({
  model: "openclaw",
  input: [
    { type: "function_call_output", call_id: call.call_id, output: '3 @mock text text="three"' },
  ],
  previous_response_id: wanted.id,
  tools,
});
assert.equal(told.output_text, "three");

const pieces = client.chat.completions.stream({
  model: "openclaw",
  messages: says('@mock tool name=add args={"a":1} then="never"'),
  tools: [{ type: "function", function: add }],
});
const choice = (await pieces.finalChatCompletion()).choices[0];
assert.equal(choice.finish_reason, "tool_calls");
assert.equal(choice.message.tool_calls[0].function.arguments, '{"a":1}');
// Without a format the client asks for base64, and reads it itself.
const vectors = await client.embeddings.create({ model: "openclaw", input: ["1", "2"] });
assert.deepEqual(vectors.data.map((row) => Math.round(row.embedding[0])), [1, 2]);
assert.equal(vectors.usage.total_tokens, 2);
const short = await client.embeddings.create({
  model: "openclaw/ops",
  input: "3",
  encoding_format: "float",
  dimensions: 2,
});
assert.deepEqual(short.data[0].embedding, [3, 0.2]);

await assert.rejects(
  client.chat.completions.create({ model: "gpt-4", messages: says("x") }),
  OpenAI.BadRequestError,
);
console.log("all is well");
