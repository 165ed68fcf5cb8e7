// A page that is told of another gateway by its address.
//
// args: {login, inside, visits: [{url, shown}]}
//   login   the link that lets the browser in
//   inside  a selector of what is shown once it is in
//   visits  addresses that name another gateway, each with a selector of what is
//           shown then
// Returns the addresses that were shown after each.
export default async function ({ page, args }) {
  await page.goto(args.login);
  await page.locator(args.inside).first().waitFor();
  const arrived = [];
  for (const { url, shown } of args.visits) {
    // What is between two addresses that differ in their fragments only is no navigation.
    await page.goto("about:blank");
    await page.goto(url);
    await page.locator(shown).first().waitFor();
    arrived.push(page.url());
  }
  return arrived;
}
