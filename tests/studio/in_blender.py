"""Run by a Python that has bpy: opens what `export --blender` wrote, and prints what its cameras see as JSON.

python in_blender.py FILE.blend POINTS.json
"""

import json
import sys
from pathlib import Path

import bpy
import numpy as np
from bpy_extras.object_utils import world_to_camera_view
from mathutils import Vector

bpy.ops.wm.open_mainfile(filepath=sys.argv[1])
scene, asked = bpy.context.scene, json.loads(Path(sys.argv[2]).read_text())
render = scene.render
size = render.resolution_x, render.resolution_y
found = {"points": len(bpy.data.objects["points"].data.vertices), "photos": len(bpy.data.images), "cameras": {}}
place = bpy.data.objects["points"].matrix_world
for camera in (one for one in bpy.data.objects if one.type == "CAMERA"):
    seen = [world_to_camera_view(scene, camera, place @ Vector(point)) for point in asked["points"]]
    pixels = [[x * size[0], (1 - y) * size[1]] for x, y, _ in seen]
    dof = camera.data.dof
    found["cameras"][camera.name] = {"pixels": pixels, "dof": dof.use_dof, "focus": dof.focus_distance}

# The layers of --rgbd, as the compositor has them.
node = bpy.data.node_groups.new("layers", "CompositorNodeTree").nodes.new("CompositorNodeImage")
node.image = bpy.data.images.load(asked["layers"])
found["layers"] = {}
for name in ("sharp", "layer-0", "layer-1"):
    node.layer = name  # an error if there is none
    found["layers"][name] = [output.name for output in node.outputs if output.enabled]

# One camera, and in place of everything else two small lamps of light: in focus, and behind it.
bpy.data.objects.remove(bpy.data.objects["points"])
camera = bpy.data.objects[asked["camera"]]
scene.camera, scene.cycles.samples, scene.cycles.device = camera, 2048, "CPU"
scene.cycles.use_denoising, scene.cycles.use_adaptive_sampling, scene.cycles.pixel_filter_type = False, False, "BOX"
scene.world = None
material = bpy.data.materials.new("lamp")
if material.node_tree is None:
    material.use_nodes = True
material.node_tree.nodes.clear()
shine, out = (material.node_tree.nodes.new(kind) for kind in ("ShaderNodeEmission", "ShaderNodeOutputMaterial"))
material.node_tree.links.new(shine.outputs[0], out.inputs["Surface"])
render.image_settings.file_format, render.filepath = "OPEN_EXR", asked["picture"]
found["spread"] = []
for depth in asked["depths"]:
    bpy.ops.mesh.primitive_circle_add(radius=asked["radius"] * depth, fill_type="NGON", vertices=32)
    lamp = bpy.context.active_object
    lamp.matrix_world = camera.matrix_world @ lamp.matrix_world.Translation((0, 0, -depth))
    lamp.data.materials.append(material)
    bpy.ops.render.render(write_still=True)
    image = bpy.data.images.load(asked["picture"], check_existing=False)
    light = np.array(image.pixels[:]).reshape(size[1], size[0], -1)[..., 0].astype(float)
    rows, columns = np.mgrid[: size[1], : size[0]]
    weight = light / light.sum()
    column, row = (weight * columns).sum(), (weight * rows).sum()
    found["spread"].append((weight * ((columns - column) ** 2 + (rows - row) ** 2)).sum())
    bpy.data.objects.remove(lamp)
print("FOUND " + json.dumps(found))
