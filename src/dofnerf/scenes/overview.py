def describe(scene):
    return scene.describe()


def write_contact_sheet(scene, path):
    pass
