// Tells the tool, line by line, which file runs and how it ended.

export default class Lines {
  onTestModuleStart({ moduleId }) {
    console.log(`@begin ${nameOf(moduleId)}`);
  }

  onTestModuleEnd(module) {
    console.log(`@end ${nameOf(module.moduleId)} ${module.state()}`);
  }
}

const nameOf = (path) => path.slice(path.lastIndexOf("/") + 1, -".test.ts".length);
