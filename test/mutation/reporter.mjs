// Tells the tool, line by line, which file runs, whether a test of it ran out of time, and how it ended. A
// failure without a mutant is shown.

export default class Lines {
  onTestModuleStart({ moduleId }) {
    console.log(`@begin ${nameOf(moduleId)}`);
  }

  onTestCaseResult(test) {
    const { state, errors } = test.result();
    if (state === "failed" && /timed out/i.test(errors[0]?.message ?? ""))
      console.log(`@late ${nameOf(test.module.moduleId)}`);
    if (state === "failed" && nameOf(test.module.moduleId).startsWith("file-")) {
      console.error(`without a mutant: ${test.fullName}\n${errors[0]?.message}`);
    }
  }

  onTestModuleEnd(module) {
    console.log(`@end ${nameOf(module.moduleId)} ${module.state()}`);
  }
}

const nameOf = (path) => path.slice(path.lastIndexOf("/") + 1, -".test.ts".length);
