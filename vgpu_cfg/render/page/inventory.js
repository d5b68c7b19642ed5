drawEstate(data);
