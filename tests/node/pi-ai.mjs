// Lets pi-ai make the calls that it is given, and writes what comes of each.
//
// stdin: [{model, context, options}]; stdout: [{events, message}].
import { stream, streamSimple } from "@mariozechner/pi-ai";
import { text } from "node:stream/consumers";

async function call({ model, context, options }) {
  // `streamSimple` of most APIs forgets the choice of tools.
  const ask = options.toolChoice ? stream : streamSimple;
  const events = [];
  let message;
  for await (const event of ask(model, context, options)) {
    if (event.type === "done") message = event.message;
    else if (event.type === "error") message = event.error;
    else if (event.type !== "start") {
      const { partial, ...rest } = event;
      events.push(JSON.parse(JSON.stringify(rest)));
    }
  }
  return { events, message };
}

const results = [];
for (const each of JSON.parse(await text(process.stdin))) {
  results.push(await call(each));
}
process.stdout.write(JSON.stringify(results));
