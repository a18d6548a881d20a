/** The id of a session, told apart from that of one which was removed before it was made again. */
export function incarnationOf(id: string, generation: number): string {
  return generation === 1 ? id : `${id}#${generation}`;
}
