"use strict";

// Before and after: pointer and touch move the bar to where they are; the range input, unseen, is for keyboard and screen readers.
for (const box of document.querySelectorAll(".compare")) {
  const range = box.querySelector("input");
  const show = () => box.style.setProperty("--at", `${range.value}%`);
  const follow = (event) => {
    const edge = box.getBoundingClientRect();
    range.value = Math.min(100, Math.max(0, (100 * (event.clientX - edge.left)) / edge.width));
    show();
  };
  range.addEventListener("input", show);
  box.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    box.setPointerCapture(event.pointerId);
    range.focus({ preventScroll: true });
    follow(event);
  });
  box.addEventListener("pointermove", (event) => { if (box.hasPointerCapture(event.pointerId)) follow(event); });
  show();
}

// Cameras in 3D: points and view pyramids, turned by dragging, scaled by the wheel or two fingers.
for (const canvas of document.querySelectorAll("canvas.cameras")) {
  const world = JSON.parse(document.getElementById(canvas.dataset.world).textContent);
  const pen = canvas.getContext("2d");
  const style = getComputedStyle(document.documentElement);
  const fingers = new Map();
  let turn = 0.5, tilt = 0.35, scale = 1;

  function project(place, size) {
    // World axes: right, up, backward. First turned about "up", then tilted; seen from 3 units away.
    const [x, y, z] = place;
    const u = Math.cos(turn) * x + Math.sin(turn) * z;
    const away = Math.cos(turn) * z - Math.sin(turn) * x;
    const v = Math.cos(tilt) * y - Math.sin(tilt) * away;
    const near = 3 - (Math.sin(tilt) * y + Math.cos(tilt) * away);
    const zoom = (1.25 * scale * size.height) / Math.max(near, 0.2);
    return [size.width / 2 + zoom * u, size.height / 2 - zoom * v, near];
  }

  // Begin so near that what is there fills the canvas.
  function settle() {
    const size = { width: canvas.clientWidth, height: canvas.clientHeight };
    if (!size.width) return;
    const places = [...world.points, ...world.cameras.map((camera) => camera.place)].map((place) => project(place, size));
    const wide = Math.max(...places.map((at) => Math.abs(at[0] - size.width / 2)));
    const tall = Math.max(...places.map((at) => Math.abs(at[1] - size.height / 2)));
    scale = 0.92 * Math.min(size.width / 2 / Math.max(wide, 1), size.height / 2 / Math.max(tall, 1));
  }

  function draw() {
    const ratio = window.devicePixelRatio || 1;
    const size = { width: canvas.clientWidth, height: canvas.clientHeight };
    canvas.width = Math.round(size.width * ratio);
    canvas.height = Math.round(size.height * ratio);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, size.width, size.height);
    for (const [x, y, z, colour] of world.points) {
      const at = project([x, y, z], size);
      const wide = Math.max(1.5, Math.min(7, (5.5 * scale) / at[2]));
      pen.fillStyle = colour;
      pen.fillRect(at[0] - wide / 2, at[1] - wide / 2, wide, wide);
    }
    for (const camera of world.cameras) {
      const tip = project(camera.place, size);
      const rim = camera.rim.map((corner) => project(corner, size));
      pen.strokeStyle = style.getPropertyValue(camera.held ? "--accent" : "--true");
      pen.lineWidth = camera.held ? 2 : 1.2;
      pen.beginPath();
      rim.forEach((corner, k) => {
        pen.moveTo(tip[0], tip[1]);
        pen.lineTo(corner[0], corner[1]);
        pen.lineTo(rim[(k + 1) % 4][0], rim[(k + 1) % 4][1]);
      });
      pen.stroke();
    }
  }

  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, [event.clientX, event.clientY]);
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = fingers.get(event.pointerId);
    if (!before) return;
    const now = [event.clientX, event.clientY];
    const other = [...fingers].find(([id]) => id !== event.pointerId)?.[1];
    if (other) {
      scale *= Math.hypot(now[0] - other[0], now[1] - other[1]) / Math.max(1, Math.hypot(before[0] - other[0], before[1] - other[1]));
    } else {
      turn += (now[0] - before[0]) / 150;
      tilt = Math.max(-1.5, Math.min(1.5, tilt + (now[1] - before[1]) / 150));
    }
    scale = Math.max(0.2, Math.min(12, scale));
    fingers.set(event.pointerId, now);
    draw();
  });
  for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, (event) => fingers.delete(event.pointerId));
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    scale = Math.max(0.2, Math.min(12, scale * Math.exp(-event.deltaY / 500)));
    draw();
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, -0.1], ArrowDown: [0, 0.1] }[event.key];
    if (!step) return;
    event.preventDefault();
    turn += step[0];
    tilt = Math.max(-1.5, Math.min(1.5, tilt + step[1]));
    draw();
  });
  settle();
  new ResizeObserver(draw).observe(canvas);
}
