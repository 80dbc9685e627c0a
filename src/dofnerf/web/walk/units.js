// The lens in words that a photographer knows. `opening` is the radius of the lens over `focal` (see camera.js): it
// stays when the focal length changes, as the f-number does.

const THIRDS = ["", "⅓", "⅔"];

// f-number of an opening, where the scale of the scene is known (`facts.unit`, metres in a scene unit). That of the
// photos' own lens (-1 blades) is by the area of its opening.
export const fNumber = (facts, opening, blades) =>
  facts.mm / (2000 * facts.unit * opening * (blades === -1 ? facts.filled || 1 : 1));

// Stops by which an opening is wider than the lens that was found.
export const stopsOf = (facts, opening) => 2 * Math.log2(opening / facts.opening);
export const openingOf = (facts, stops) => facts.opening * 2 ** (stops / 2);

export function openingWords(facts, { opening, blades }) {
  if (!(opening > 0)) return "all sharp";
  if (facts.unit) return `f/${Number(fNumber(facts, opening, blades).toPrecision(2))}`;
  const stops = stopsOf(facts, opening), thirds = Math.round(3 * Math.abs(stops));
  if (!thirds) return facts.found ? "as your photos" : "normal";
  const number = `${Math.floor(thirds / 3) || ""}${THIRDS[thirds % 3]}`;
  return `${number} stop${thirds > 3 ? "s" : ""} ${stops > 0 ? "wider" : "narrower"}`;
}

export function focusWords(facts, disparity) {
  const [far, near] = facts.range, share = (near - disparity) / (near - far || 1);
  if (disparity <= 0) return "infinity";
  if (facts.unit) return lengthWords(facts.unit / disparity);
  return share < 0.08 ? "nearest" : share < 0.35 ? "near" : share < 0.65 ? "middle" : share < 0.92 ? "far" : "farthest";
}

const lengthWords = (metres) => (metres < 1 ? `${Math.round(100 * metres)} cm` : `${Number(metres.toPrecision(3))} m`);

export const focalWords = (facts, focal) => `${Math.round(focal * facts.mm)} mm`;

export function exposureWords(stops) {
  const thirds = Math.round(3 * Math.abs(stops));
  if (!thirds) return "0";
  return `${stops > 0 ? "+" : "−"}${Math.floor(thirds / 3) || ""}${THIRDS[thirds % 3]}`;
}
