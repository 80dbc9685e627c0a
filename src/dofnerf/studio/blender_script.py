"""Made by dofnerf export. Builds cameras, photos and points in Blender (4.2 or later):

    blender --python cameras.py                  opens them
    python cameras.py --save cameras.blend       where the module bpy is installed (pip install bpy)

Each camera has its photo as background (look through it with numpad 0), and where the run knows its lens, depth of
field with the photo's focus distance and f-stop.
"""

import json  # noqa: F401
import sys
from pathlib import Path

import bpy
from mathutils import Matrix

FACTS: dict = {}
HERE = Path(__file__).resolve().parent


def add_camera(facts, collection):
    """One photo's camera."""
    data = bpy.data.cameras.new(facts["name"])
    data.sensor_fit, data.sensor_width, data.lens = "HORIZONTAL", facts["sensor"], facts["focal"]
    data.shift_x, data.shift_y = facts["shift"]
    data.clip_start, data.clip_end = 1e-3, 1e6
    if "fstop" in facts:
        data.dof.use_dof = True
        data.dof.focus_distance, data.dof.aperture_fstop = facts["focus"], facts["fstop"]
    if "photo" in facts:
        data.show_background_images = True
        background = data.background_images.new()
        background.image = bpy.data.images.load(str(HERE / facts["photo"]), check_existing=True)
        background.alpha = 0.5
    camera = bpy.data.objects.new(facts["name"], data)
    camera.matrix_world = Matrix(facts["matrix"])
    collection.objects.link(camera)
    return camera


def add_points(path, place, radius):
    """The points of a .ply with their colours, as small spheres that render."""
    bpy.ops.wm.ply_import(filepath=str(path), forward_axis="Y", up_axis="Z", import_colors="SRGB")
    points = bpy.context.view_layer.objects.active
    points.name = "points"
    points.matrix_world = Matrix(place).to_4x4()
    material = bpy.data.materials.new("points")
    if material.node_tree is None:  # before Blender 5, which has it by itself
        material.use_nodes = True
    nodes, links = material.node_tree.nodes, material.node_tree.links
    nodes.clear()
    colour, shine, out = (nodes.new(kind) for kind in
                          ("ShaderNodeAttribute", "ShaderNodeEmission", "ShaderNodeOutputMaterial"))  # fmt: skip
    names = [attribute.name for attribute in points.data.color_attributes]
    colour.attribute_name = names[0] if names else "Col"
    links.new(colour.outputs["Color"], shine.inputs["Color"])
    links.new(shine.outputs["Emission"], out.inputs["Surface"])
    group = bpy.data.node_groups.new("points", "GeometryNodeTree")
    group.interface.new_socket("Geometry", in_out="INPUT", socket_type="NodeSocketGeometry")
    group.interface.new_socket("Geometry", in_out="OUTPUT", socket_type="NodeSocketGeometry")
    begin, spheres, paint, end = (group.nodes.new(kind) for kind in
                                  ("NodeGroupInput", "GeometryNodeMeshToPoints", "GeometryNodeSetMaterial",
                                   "NodeGroupOutput"))  # fmt: skip
    spheres.inputs["Radius"].default_value = radius / max(Matrix(place).to_scale())
    paint.inputs["Material"].default_value = material
    for one, other in ((begin, spheres), (spheres, paint), (paint, end)):
        group.links.new(one.outputs[0], other.inputs[0])
    points.modifiers.new("points", "NODES").node_group = group
    return points


def build():
    """Everything, into the open file."""
    scene = bpy.context.scene
    scene.render.resolution_x, scene.render.resolution_y = FACTS["width"], FACTS["height"]
    scene.render.pixel_aspect_x, scene.render.pixel_aspect_y = 1.0, FACTS["pixel_aspect"]
    scene.view_settings.view_transform = "Standard"  # colours as they are
    scene.render.engine = "CYCLES"
    collection = bpy.data.collections.new("photos")
    scene.collection.children.link(collection)
    cameras = [add_camera(facts, collection) for facts in FACTS["cameras"]]
    scene.camera = cameras[0]
    add_points(HERE / FACTS["points"], FACTS["place"], FACTS["radius"])


if __name__ == "__main__":
    if "--save" in sys.argv:
        bpy.ops.wm.read_factory_settings(use_empty=True)
    build()
    if "--save" in sys.argv:
        bpy.ops.wm.save_as_mainfile(filepath=str(Path(sys.argv[sys.argv.index("--save") + 1]).resolve()))
