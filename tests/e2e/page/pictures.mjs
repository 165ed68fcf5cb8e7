// Steps of pictures.rs.
import { login, steps, until } from "../../node/page.mjs";

// Name, view, size, theme.
const PICTURES = [
  ["page-chat.png", "#/chat/agent%3Amain%3Amain", { width: 1280, height: 800 }, "light"],
  ["page-usage.png", "#/usage", { width: 1280, height: 800 }, "light"],
  ["page-phone.png", "#/chat/agent%3Amain%3Amain", { width: 390, height: 844 }, "dark"],
];

export default steps({
  // Of the views that there are; returns the names of the files.
  async takes({ page, args }) {
    const taken = [];
    await login(page, args);
    for (const [name, hash, viewport, colorScheme] of PICTURES) {
      const view = hash.split("/")[1];
      if ((await page.locator(`nav a[href="#/${view}"]`).count()) === 0) continue;
      await page.setViewportSize(viewport);
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      await page.goto(args.url + hash);
      await page.reload();
      await page.getByRole("navigation", { name: "Views" }).waitFor();
      await page.locator("main").getByText(view === "usage" ? "Top sessions" : "cold enough").first().waitFor();
      await until("all of it is there", async () => (await page.locator("main .spin:visible").count()) === 0);
      await page.screenshot({ path: `${args.folder}/${name}` });
      taken.push(name);
    }
    return taken;
  },
});
