"""Operations in which several processes take part, such as sums over all of them."""
