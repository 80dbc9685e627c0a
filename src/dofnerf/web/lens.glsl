#version 300 es
// Layers of depth, the farthest first, each blurred by its own disparity and laid over what is behind it, in linear light.
//
// A pixel gathers from taps around it: one of radius r at distance l gives light if k·r reaches l, divided by r² + 0.2, as in the
// scatter of the package. `spiral` has a row of taps for each layer: offset in pixels, how many pixels a tap stands for, and the
// level of the textures whose pixels are that large.
precision highp float;
precision highp sampler2DArray;
uniform sampler2DArray colour;   // sRGB: sampled as light
uniform sampler2DArray matte;    // red: disparity within the layer's range; green: coverage
uniform highp sampler2D spiral;  // column, row, area, level
uniform vec2 size;               // of the pictures, pixels
uniform float zoom;              // pixels of the picture in one of the canvas
uniform int count;
uniform vec4 range[16];          // of each layer: lowest disparity, how much more is the highest, level to look around at, taps
uniform float aperture, focus, gain, rotation;
uniform int blades;              // 0: a disc; 3 and more: a polygon; -1: the shape whose rim is tabulated
uniform float rim[128];          // distance of the rim, counter-clockwise from the right, in radii
out vec4 shown;
const float TAU = 6.2831853;

float reach(vec2 way) {
  if (blades < 0) {
    float at = fract((atan(-way.y, way.x) - rotation) / TAU) * 128.0;
    return mix(rim[int(at) % 128], rim[(int(at) + 1) % 128], fract(at));
  }
  float blade = TAU / float(blades), angle = mod(atan(-way.y, way.x) - rotation, blade) - blade / 2.0;
  return cos(blade / 2.0) / cos(angle);
}

vec4 blurred(vec2 at, int layer, mat2 turned) {
  vec4 about = range[layer];
  vec3 place = vec3(at / size, float(layer));
  if (layer > 0 && textureLod(matte, place, about.z).g < 0.002) return vec4(0.0);  // nothing of this layer reaches here
  vec4 lit = vec4(0.0);
  float total = 0.0;
  int taps = int(about.w);
  for (int i = 0; i < taps; i++) {
    vec4 tap = texelFetch(spiral, ivec2(i, layer), 0);
    vec2 offset = turned * tap.xy;
    place.xy = (at + offset) / size;
    vec2 here = textureLod(matte, place, tap.w).rg;
    float r = aperture * (focus - about.x - here.x * about.y), l = length(tap.xy);
    float k = blades == 0 || l == 0.0 ? 1.0 : reach(r < 0.0 ? offset : -offset);
    float w = tap.z * clamp(0.5 + 1.5 * (abs(r) * k - l), 0.0, 1.0) / (r * r + 0.2);
    if (w <= 0.0) continue;
    total += w;
    w *= here.y;
    if (w > 0.0) lit += w * vec4(textureLod(colour, place, tap.w).rgb, 1.0);
  }
  return lit / max(total, 1e-6);
}

void main() {
  vec2 at = vec2(gl_FragCoord.x, size.y / zoom - gl_FragCoord.y) * zoom;
  float dice = TAU * fract(52.9829189 * fract(dot(floor(gl_FragCoord.xy), vec2(0.06711056, 0.00583715))));
  mat2 turned = mat2(cos(dice), sin(dice), -sin(dice), cos(dice));
  vec4 lit = vec4(0.0);
  for (int layer = 0; layer < count; layer++) {
    vec4 one = blurred(at, layer, turned);
    lit = one + (1.0 - min(one.a, 1.0)) * lit;
  }
  vec3 light = gain * lit.rgb / max(lit.a, 1e-4);
  vec3 curved = mix(12.92 * light, 1.055 * pow(max(light, 1e-6), vec3(1.0 / 2.4)) - 0.055, step(0.0031308, light));
  shown = vec4(clamp(curved, 0.0, 1.0), 1.0);
}
