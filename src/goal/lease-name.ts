/** The lease that whoever works on a task holds. */
export function leaseName(goal: string, task: string): string {
  return `goal/${goal}/${task}`;
}
