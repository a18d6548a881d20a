/** What a person has to see to, the most urgent first, and the command that helps. */
export interface Need {
  readonly what: string;
  readonly command: string;
}
