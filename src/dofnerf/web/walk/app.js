// The page: first the poster, then the scene.
import { Remote } from "./remote.js";
import { Stage } from "./stage.js";
import { Walk } from "./walk.js";
import { $, connectHints, connectPanel, drawPhotos, listenToKeys } from "./panel.js";
import { largePicture } from "./save.js";
import { connectServer } from "./server.js";
import { fromBase64, unpack } from "./unpack.js";
import { listenToGestures } from "./gestures.js";

async function begin() {
  const facts = JSON.parse($("facts").textContent), canvas = $("picture");
  await new Promise((go) => requestAnimationFrame(() => setTimeout(go))); // the poster is drawn before the work begins
  const scene = async () => {
    if (!facts.served) return unpack(fromBase64($("scene").textContent));
    const answer = await fetch("scene.bin");
    if (!answer.ok) throw new Error("the scene does not come");
    return unpack(new Uint8Array(await answer.arrayBuffer()));
  };
  const stage = facts.drawn ? new Remote(canvas) : new Stage(canvas, await scene());
  const walk = new Walk(facts, stage, canvas);
  connectHints(walk);
  connectPanel(walk);
  listenToGestures(canvas, walk, window);
  listenToKeys(walk);
  if (facts.served) connectServer(walk, scene);
  canvas.addEventListener("webglcontextlost", (event) => event.preventDefault());
  canvas.addEventListener("webglcontextrestored", () => location.reload());
  walk.picture = (asked, tell) => largePicture(stage, asked, tell);
  window.dofnerf = walk; // for scripts of whoever embeds this page, and for tests
  walk.wake();
  const watch = new MutationObserver(() => {
    if (!["refining", "done"].includes(document.body.dataset.state)) return;
    watch.disconnect();
    $("poster").remove();
    drawPhotos(walk);
  });
  watch.observe(document.body, { attributes: true });
}

begin().catch((error) => {
  document.body.dataset.state = "failed";
  $("sorry").hidden = false;
  $("sorry").textContent = `This scene cannot be shown here: ${error.message}`;
});
