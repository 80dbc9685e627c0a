// What `dofnerf view` adds: the real photos beside the picture, films of keyframes, and a scene that is still training.
import { download } from "./save.js";
import { $, notice } from "./panel.js";
import { along } from "./keyframes.js";
import { cameraOf, sideOf } from "./camera.js";

const EVERY = 1500; // milliseconds between questions to the server

export function connectServer(walk, scene) {
  connectPhotos(walk);
  if (!walk.facts.live) connectFilms(walk);
  let version = walk.facts.version, busy = false, gone = false;
  const ask = async () => {
    if (document.hidden || busy) return;
    busy = true;
    try {
      const status = await (await fetch("status")).json();
      gone = false;
      if (status.version !== version) {
        if (walk.stage.use) await walk.stage.use(await scene(), walk.camera());
        version = status.version;
        status.lenses.forEach((lens, i) => Object.assign(walk.facts.photos[i], lens));
        walk.touch();
        walk.wake();
      }
      showTraining(status.training);
      showJobs(status.films);
      if (status.table) showTable(status.table);
    } catch {
      if (!gone) notice(`The viewer has ended.${walk.facts.drawn ? "" : " You can still look around."}`);
      gone = true;
    } finally {
      busy = false;
    }
  };
  $("films").addEventListener("asked", ask);
  setInterval(ask, EVERY);
  ask();
}

// How far a run is that is still being trained.
function showTraining(training) {
  $("training").hidden = !training;
  if (!training) return;
  $("training").textContent = `Still learning: ${Math.floor((100 * training.step) / training.steps)} %`;
}

// The lens of every photo as it is now, of a run that is being trained.
function showTable(rows) {
  $("table").hidden = document.querySelector("[data-section=table]").hidden = !rows.length;
  $("lenses").replaceChildren(...rows.map((cells, i) => {
    const row = document.createElement("tr");
    row.append(...cells.map((words) => {
      return Object.assign(document.createElement(i ? "td" : "th"), { textContent: words });
    }));
    return row;
  }));
}

// The photo itself over the picture, as it was framed, while the camera stands where it was taken.
function connectPhotos(walk) {
  const photo = $("photo"), button = $("original");
  let on = false;
  button.hidden = !walk.facts.photos.some(({ file }) => file);
  button.onclick = () => {
    on = !on;
    if (on && !walk.photo) walk.visit(walk.facts.photos.find(({ file }) => file));
    walk.tell();
  };
  walk.listeners.push(({ split, comparing }) => {
    const shown = walk.photo, seen = on && shown?.file;
    button.setAttribute("aria-pressed", Boolean(seen));
    photo.hidden = !seen;
    if (walk.facts.found) $("split-left").textContent = seen ? "The photo" : "As shot";
    if (!seen) return;
    if (photo.getAttribute("src") !== shown.file) photo.src = shown.file;
    const box = walk.canvas.getBoundingClientRect();
    const scale = sideOf(box.width, box.height, walk.aspect) / Math.sqrt(shown.width * shown.height);
    const [width, height] = [shown.width * scale, shown.height * scale], left = (box.width - width) / 2;
    Object.assign(photo.style, { width: `${width}px`, height: `${height}px`, left: `${left}px` });
    photo.style.top = `${(box.height - height) / 2}px`;
    const cut = comparing ? split * box.width - left : width;
    photo.style.clipPath = `inset(0 ${Math.max(width - cut, 0)}px 0 0)`;
  });
}

function connectFilms(walk) {
  const frames = [], list = $("keyframes");
  $("films").hidden = false;
  document.querySelector("[data-section=films]").hidden = false;
  const draw = () => {
    list.replaceChildren(...frames.map((frame, i) => {
      const row = document.createElement("li");
      const button = (text, label, act) => {
        const made = document.createElement("button");
        Object.assign(made, { type: "button", textContent: text, onclick: act });
        made.setAttribute("aria-label", `${label} keyframe ${i + 1}`);
        row.append(made);
      };
      button(`${i + 1}`, "Go to", () => walk.fly(frame.pose, frame.lens, frame.exposure));
      row.firstChild.append(frame.paper);
      button("↑", "Earlier:", () => swap(i, i - 1, 1));
      button("↓", "Later:", () => swap(i, i + 1, 2));
      button("✕", "Delete", () => {
        frames.splice(i, 1);
        draw();
        (list.children[Math.min(i, frames.length - 1)]?.lastChild || $("add")).focus();
      });
      [row.children[1].disabled, row.children[2].disabled] = [!i, i === frames.length - 1];
      return row;
    }));
    $("preview").disabled = $("render").disabled = frames.length < 2;
    $("film-hint").hidden = frames.length >= 2;
  };
  const swap = (i, j, which) => { // the keyboard stays with the keyframe that moves
    [frames[i], frames[j]] = [frames[j], frames[i]];
    draw();
    const { children } = list.children[j];
    (children[which].disabled ? children[3 - which] : children[which]).focus();
  };
  $("add").onclick = () => {
    const { pose, lens, exposure } = walk.view;
    frames.push({ pose, lens, exposure, paper: small(walk.canvas) });
    draw();
  };
  // As the film will run; anything that is done to the picture ends it.
  walk.film = (share) => along(frames, share * (frames.length - 1));
  $("preview").onclick = () => {
    const { pose, lens, exposure } = frames[0], seconds = Number($("seconds").value) * (frames.length - 1);
    const then = () => walk.play(1000 * seconds, (share) => walk.set(walk.film(share)));
    walk.fly(pose, lens, exposure, { milliseconds: 300, then });
  };
  $("render").onclick = async () => {
    const { width, height } = walk.canvas, seconds = Number($("seconds").value);
    const keyframes = frames.map(({ pose, lens, exposure }) => {
      const camera = cameraOf(pose, width, height, walk.aspect);
      const { focus, blades, rotation } = lens;
      return { camera, lens: { aperture: lens.opening * pose.focal * camera.fx, focus }, blades, rotation, exposure };
    });
    const body = JSON.stringify({ keyframes, seconds });
    const answer = await fetch("films", { method: "POST", body }).catch(() => null);
    if (answer?.ok) notice("The film is being made. You can go on, or close this tab.");
    else notice((await answer?.text()) || "This film cannot be made.");
    $("films").dispatchEvent(new Event("asked"));
  };
  draw();
}

// The picture as it stands, small.
function small(canvas) {
  const height = 34, width = Math.round((height * canvas.width) / canvas.height);
  const paper = Object.assign(document.createElement("canvas"), { width, height });
  paper.getContext("2d").drawImage(canvas, 0, 0, width, height);
  return paper;
}

const rows = new Map(), offered = new Set();

// Films that the server makes or has made: how far, how long still, cancel; or to download. A row stays the same while
// its film is made, so that neither a click nor the keyboard loses it.
function showJobs(films) {
  for (const film of films) {
    if (rows.get(film.name)?.dataset.state !== film.state) rows.set(film.name, jobRow(film));
    const left = film.left ? `, ${timeWords(film.left)} left` : "";
    const words = film.state === "working" ? `${film.name}: ${Math.round(100 * film.share)} %${left}`
      : film.state === "done" ? film.name : `${film.name}: ${film.state}`;
    const place = rows.get(film.name).firstChild;
    if (place.textContent !== words) place.textContent = words;
  }
  const wanted = films.map(({ name }) => rows.get(name)), list = $("jobs");
  if (wanted.length !== list.children.length || wanted.some((row, i) => row !== list.children[i])) {
    list.replaceChildren(...wanted);
  }
}

function jobRow(film) {
  const row = document.createElement("li");
  row.dataset.state = film.state;
  row.append(document.createElement("span"));
  const button = (textContent, onclick) => {
    const made = Object.assign(document.createElement("button"), { type: "button", textContent, onclick });
    made.setAttribute("aria-label", `${textContent} ${film.name}`);
    row.append(made);
  };
  if (film.state === "working") {
    button("Cancel", async () => {
      await fetch(`films/${film.name}`, { method: "DELETE" }).catch(() => null);
      $("films").dispatchEvent(new Event("asked"));
    });
  } else if (film.state === "done") {
    button("Download", () => fetchFilm(film.name));
    if (film.fresh && !offered.has(film.name)) notice(`${film.name} is ready, and kept in ${film.folder}.`, 8);
    offered.add(film.name);
  }
  return row;
}

function timeWords(seconds) {
  return seconds > 90 ? `${Math.round(seconds / 60)} min` : `${Math.max(1, Math.round(seconds))} s`;
}

async function fetchFilm(name) {
  const answer = await fetch(`films/${name}`).catch(() => null);
  if (answer?.ok) download(await answer.blob(), name);
  else notice(`${name} is not there any more.`);
}
